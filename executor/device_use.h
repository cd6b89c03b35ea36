// What this process holds of a device's memory, and held at most: the check of a plan's own prediction.
#pragma once

#include <cstdint>
#include <string>

namespace genesis {

struct DeviceUse {
  int64_t bytes = 0, peak_bytes = 0;  // 0 on the CPU, whose memory nobody counts
};
DeviceUse device_use(const std::string& device);
DeviceUse cuda_use(int index);

}  // namespace genesis
