#include "builder/skip_init.h"

#include <utility>

namespace genesis::init {
namespace {

thread_local bool is_skipped = false;

}  // namespace

SkipInit::SkipInit() : before_(std::exchange(is_skipped, true)) {}
SkipInit::~SkipInit() { is_skipped = before_; }

bool SkipInit::is_active() { return is_skipped; }

}  // namespace genesis::init
