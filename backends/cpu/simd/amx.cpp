#include "backends/cpu/simd/amx.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace genesis::cpu {
namespace {

bool ask_for_tiles() {
  constexpr int kAskForFeature = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM and XFEATURE_XTILEDATA
  constexpr unsigned kTiles = 1u << 24, kBf16 = 1u << 22;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & kTiles) && (d & kBf16) &&
         syscall(SYS_arch_prctl, kAskForFeature, kTileData) == 0;
}

}  // namespace

bool may_use_amx_bf16() {
  static const bool may = ask_for_tiles();
  return may;
}

}  // namespace genesis::cpu
#else
namespace genesis::cpu {
bool may_use_amx_bf16() { return false; }
}  // namespace genesis::cpu
#endif
