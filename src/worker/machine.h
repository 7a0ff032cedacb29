// What this process may use of the machine that it runs on.
#pragma once

#include <string>
#include <vector>

#include "rota/model/resources.h"

namespace rota::worker {

// The NVIDIA devices that the driver lists below `directory`, in the order of their bus addresses, at most
// model::kMostDevices. The driver's files name the model; the memory of a device is not in them and stays 0.
[[nodiscard]] std::vector<model::Device> nvidia_devices(const std::string& directory = "/proc/driver/nvidia/gpus");

}  // namespace rota::worker
