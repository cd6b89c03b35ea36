// Downloads of a device whose memory the host reads (executor/runtime/downloads.h).
#pragma once

#include <memory>

#include "executor/runtime/downloads.h"

namespace genesis {

class Device;

// Copies by all the device's cores, done when take() returns. The device must outlive them.
std::unique_ptr<Downloads> make_host_downloads(Device& device);

}  // namespace genesis
