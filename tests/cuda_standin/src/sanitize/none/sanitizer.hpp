#pragma once

#include <cstddef>

namespace standin::sanitizer {

struct Stack {
  void* bottom = nullptr;
  size_t size = 0;
};

/// Nothing to tell: this build has no AddressSanitizer.
inline void poison(void*, size_t) {}
inline void unpoison(void*, size_t) {}
inline void* begin_switch(const Stack&) { return nullptr; }
inline Stack end_switch(void*) { return {}; }

/// Bytes of a fiber's stack.
inline constexpr size_t kStackSize = 128 * 1024;

}  // namespace standin::sanitizer
