#pragma once

#include <cstdint>

namespace gpt {

/// Zeroed memory, in 2 MiB pages where it is large and the system gives them. Each of `threads` OpenMP
/// threads touches its part first, so that it lies in that thread's memory. @throws Error if there is none
void* allocate_pages(int64_t bytes, int threads);
void release_pages(void* data, int64_t bytes);

}  // namespace gpt
