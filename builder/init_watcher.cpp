#include "builder/init_watcher.h"

#include "schema/core/error.h"

namespace genesis::init {
namespace {

thread_local Watcher* watcher = nullptr;

}  // namespace

Watcher::Watcher(OnProgress progress) : progress_(std::move(progress)) {
  GENESIS_ASSERT(watcher == nullptr);
  watcher = this;
}

Watcher::~Watcher() { watcher = nullptr; }

void Watcher::add(uint64_t bytes) {
  if (watcher == nullptr) return;
  watcher->bytes_ += bytes;
  watcher->progress_("drawing initial values", watcher->bytes_, 0);
}

}  // namespace genesis::init
