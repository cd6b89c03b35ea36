// Downloads for a device whose memory the host can read (executor/runtime/downloads.h).
#pragma once

#include <memory>

#include "executor/runtime/downloads.h"

namespace genesis {

class Device;

// Copies with all the device's cores; the copies are complete when take() returns. The device must outlive the object.
std::unique_ptr<Downloads> make_host_downloads(Device& device);

}  // namespace genesis
