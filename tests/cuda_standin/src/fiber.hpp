#pragma once

#include <cuda_runtime.h>
#include <sanitizer.hpp>

namespace standin {

/// A stack of its own on which threads of a block run, one after the other; or the stack of the caller.
struct Fiber {
  void* resume = nullptr;  ///< where it goes on
  sanitizer::Stack stack;
  uint3 thread_index{};  ///< threadIdx of the thread that it runs
  unsigned thread = 0;   ///< that thread's number in the block
};

/// The fiber that runs.
extern Fiber* current_fiber;

/// Goes on with another fiber; returns when something switches back.
void switch_to(Fiber& to);

/// Takes the caller's stack for `caller`; the next switch is from there.
void enter_fibers(Fiber& caller);

/// A fiber without a thread; switching to it calls `start`. Its memory stays: give it back with
/// `release_fiber`.
Fiber& take_fiber(void (*start)());
void release_fiber(Fiber& fiber);

}  // namespace standin
