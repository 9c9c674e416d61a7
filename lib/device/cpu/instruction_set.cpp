#include "device/cpu/instruction_set.hpp"

// clang-format off: the kernels' headers must follow the one that repeats this file for each instruction set
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/instruction_set.cpp"
#include <hwy/foreach_target.h>
// clang-format on

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace gpt::HWY_NAMESPACE {

// Highway calls its AVX-512 sets AVX3, and numbers better sets of x86 lower.
const char* target_name() { return HWY_TARGET <= HWY_AVX3 ? "AVX-512" : hwy::TargetName(HWY_TARGET); }

}  // namespace gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpt {

HWY_EXPORT(target_name);

const char* instruction_set() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

}  // namespace gpt
#endif
