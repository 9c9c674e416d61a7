#pragma once

namespace gpt {

/// Floating-point operations a second of the CPU's own products of bf16 on `threads` threads; 0 if it has
/// none.
double measure_bfloat16_flops(int threads);

}  // namespace gpt
