// The interface between a plug-in and its host. A plug-in is a module with one function:
//
//   extern "C" long plugin_run(const Host& host, long input);
//
// It is ordinary C++ and may throw. It runs as a task of the host, with only what the host grants it.
#pragma once

#include <memory_resource>

struct Host {
  std::pmr::memory_resource* memory;  // What is allocated here is charged to the plug-in, and freed by the host.
};

extern "C" long plugin_run(const Host& host, long input);
