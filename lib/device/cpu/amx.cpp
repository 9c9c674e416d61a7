#include "device/cpu/amx.hpp"

#include <dnnl.hpp>

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace gpt {

#if defined(__x86_64__)

bool has_tiles() {
  static const bool found = [] {
    constexpr auto wanted = static_cast<int>(dnnl::cpu_isa::avx512_core_amx);
    if ((static_cast<int>(dnnl::get_effective_cpu_isa()) & wanted) != wanted) return false;
    // Tiles are state that Linux gives a process only when it asks.
    constexpr long ask = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") &&
           syscall(SYS_arch_prctl, ask, tile_data) == 0;
  }();
  return found;
}

#else

bool has_tiles() { return false; }

#endif

}  // namespace gpt
