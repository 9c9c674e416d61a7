#include "fiber.hpp"

#include "context_switch.hpp"
#include "failure.hpp"

#include <array>
#include <sys/mman.h>

namespace standin {

Fiber* current_fiber = nullptr;

namespace {

constexpr size_t kGuard = 4096;          // an overflow of the stack hits a page without access
constexpr size_t kColours = 4096 / 576;  // stacks begin at different cache sets
// One for each thread of the largest block, one for the fiber that starts others.
std::array<Fiber*, 1025> free_fibers;
size_t free_count = 0;
size_t fiber_count = 0;
Fiber* left = nullptr;
Fiber* caller_without_stack = nullptr;

/// First action on a stack after a switch to it.
void arrive(void* kept) {
  const sanitizer::Stack stack = sanitizer::end_switch(kept);
  if (left == caller_without_stack) {
    caller_without_stack->stack = stack;
    caller_without_stack = nullptr;
  }
}

void (*entry)() = nullptr;

[[noreturn]] void begin() {
  arrive(nullptr);
  entry();
  fail("a fiber ended");
}

Fiber& new_fiber() {
  if (fiber_count == free_fibers.size()) fail("more fibers than threads of a block");
  const size_t index = fiber_count++;
  void* memory = mmap(nullptr, sanitizer::kStackSize + kGuard, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, kGuard, PROT_NONE) != 0)
    fail("no memory for the stacks of threads");
  auto* bottom = static_cast<char*>(memory) + kGuard;
  auto* fiber = new Fiber;
  fiber->stack = {bottom, sanitizer::kStackSize};
  fiber->resume = new_context(bottom + sanitizer::kStackSize - index % kColours * 576, begin);
  return *fiber;
}

}  // namespace

void enter_fibers(Fiber& caller) {
  caller = {};
  current_fiber = &caller;
  caller_without_stack = &caller;
}

void switch_to(Fiber& to) {
  Fiber* const from = current_fiber;
  if (&to == from) return;
  left = from;
  current_fiber = &to;
  void* const kept = sanitizer::begin_switch(to.stack);
  gpt_cuda_standin_switch(&from->resume, to.resume);
  arrive(kept);
  threadIdx = from->thread_index;
}

Fiber& take_fiber(void (*start)()) {
  entry = start;
  return free_count > 0 ? *free_fibers[--free_count] : new_fiber();
}

void release_fiber(Fiber& fiber) { free_fibers[free_count++] = &fiber; }

}  // namespace standin
