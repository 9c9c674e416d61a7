#pragma once

/// Keeps the registers that a call must preserve on this stack, stores where in `*save`, and continues where
/// `resume` says. The floating-point control words stay as they are.
extern "C" void gpt_cuda_standin_switch(void** save, void* resume);

namespace standin {

/// Prepares a stack that ends at `top` such that switching to what is returned calls `start`, which must not
/// return.
void* new_context(void* top, void (*start)());

}  // namespace standin
