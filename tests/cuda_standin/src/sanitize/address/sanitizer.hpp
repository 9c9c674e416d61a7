#pragma once

#include <cstddef>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

namespace standin::sanitizer {

struct Stack {
  void* bottom = nullptr;
  size_t size = 0;
};

/// Makes any access to a range an error, until it is unpoisoned.
inline void poison(void* start, size_t size) { __asan_poison_memory_region(start, size); }
inline void unpoison(void* start, size_t size) { __asan_unpoison_memory_region(start, size); }

/// AddressSanitizer must know on which stack the program runs.
/// @returns what end_switch wants when this stack goes on
inline void* begin_switch(const Stack& to) {
  void* kept = nullptr;
  __sanitizer_start_switch_fiber(&kept, to.bottom, to.size);
  return kept;
}
/// @returns the stack that was left
inline Stack end_switch(void* kept) {
  const void* bottom = nullptr;
  size_t size = 0;
  __sanitizer_finish_switch_fiber(kept, &bottom, &size);
  return {const_cast<void*>(bottom), size};
}

/// Bytes of a fiber's stack: frames have red zones.
inline constexpr size_t kStackSize = 256 * 1024;

}  // namespace standin::sanitizer
