#pragma once

namespace gpt {

/// Denormal results and inputs count as zero in the calling thread from now on, and in the threads that it
/// starts. Moments of parameters without gradient decay into denormals, which are many times slower.
void flush_denormals_to_zero();

}  // namespace gpt
