#pragma once

#include "device/dtype.hpp"

namespace gpt {

/// Floating-point operations a second, each multiply-add two, that `threads` OpenMP threads reach on operands
/// in registers: what no matrix product can exceed. `operands` f32: fused multiply-adds of the widest vectors
/// that kernels are dispatched to. bf16, added up in f32: tiles (AMX) where the CPU has them and the system
/// gives them, else pairs (AVX512_BF16), else as for f32, because products are then those of f32. Takes some
/// 50 ms.
/// @throws Error for other types
double measure_peak_flops(int threads, DType operands);

/// Bytes a second that `threads` OpenMP threads move on arrays far larger than caches with next to nothing to
/// compute: the better of a += d (two streams read, one written) and a, b, c += d (four and three, as the
/// optimizer has them). Takes some 300 ms and 256 MiB.
double measure_peak_bytes(int threads);

/// Bytes a second that `threads` OpenMP threads read from an array far larger than caches, which they add up.
/// Takes some 100 ms and 512 MiB.
double measure_read_bytes(int threads);

}  // namespace gpt
