#include "builder/undrawn.h"

#include <utility>

namespace genesis::init {
namespace {

thread_local bool undrawn = false;

}  // namespace

Undrawn::Undrawn() : before_(std::exchange(undrawn, true)) {}
Undrawn::~Undrawn() { undrawn = before_; }

bool Undrawn::here() { return undrawn; }

}  // namespace genesis::init
