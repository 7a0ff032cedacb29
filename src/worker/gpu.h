// The GPUs of this machine, with model and memory (B-5).
//
// For NVIDIA devices nvidia-smi is asked, which alone knows their memory; without it, the driver's files name the
// models. AMD devices are read from sysfs. Functions that read files take the directory, for tests.
//
// Thread safety: functions without state; they block the calling thread.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "rota/model/resources.h"
#include "rota/result.h"

namespace rota::worker {

// All of them, at most model::kMostDevices. A program that hangs is killed after `within`.
[[nodiscard]] std::vector<model::Device> detect_gpus(std::chrono::milliseconds within);

// The output of `nvidia-smi --query-gpu=name,memory.total --format=csv,noheader,nounits`: one device per line, memory
// in MiB. Lines that are something else are left out; memory that is not a number ("[N/A]") is 0.
[[nodiscard]] std::vector<model::Device> parse_nvidia_smi(std::string_view text);

// Devices with memory of their own below /sys/class/drm, in the order of their numbers.
[[nodiscard]] std::vector<model::Device> drm_devices(const std::string& directory = "/sys/class/drm");

// What a program writes to standard output, at most 1 MiB. NotFound, Timeout, or Internal if its exit status is not 0.
[[nodiscard]] Result<std::string> output_of(const std::vector<std::string>& command, std::chrono::milliseconds within);

// Devices as a user writes them, "2xA100:80GiB" or "A100:80GiB" or "2xA100"; "none": no devices.
[[nodiscard]] Result<std::vector<model::Device>> parse_devices(const std::vector<std::string>& texts);

}  // namespace rota::worker
