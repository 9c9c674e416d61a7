// Launching a kernel: the arguments are kept with the launch, which a stream runs later.
#pragma once

#include <memory>
#include <standin/runtime_api.h>
#include <tuple>
#include <type_traits>
#include <utility>

namespace standin {

/// One thread of a launch: calls the kernel with the arguments kept in `call`.
using Body = void (*)(void* call);

/// Gives a grid to its stream.
/// @returns what cudaLaunchKernelEx would for sizes that no device can run
cudaError_t launch(const void* kernel, const cudaLaunchConfig_t& config, Body body,
                   std::shared_ptr<void> call);

/// Ends the program unless `pointer` is null or lies in memory that the current device can reach.
void check_device_pointer(const void* pointer, const char* what);

template <class T>
void check_argument(const T& value) {
  if constexpr (std::is_pointer_v<T>)
    check_device_pointer(const_cast<const void*>(static_cast<const volatile void*>(value)),
                         "kernel argument");
}

/// Start of the block's dynamic shared memory. Only for the one place that hides
/// `extern __shared__ unsigned char bytes[]`, which a plain C++ compiler cannot have.
void* dynamic_shared();

}  // namespace standin

template <class... Expected, class... Actual>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Expected...),
                               Actual&&... args) {
  struct Call {
    void (*kernel)(Expected...);
    std::tuple<std::decay_t<Expected>...> args;
  };
  auto call = std::make_shared<Call>(Call{kernel, {std::forward<Actual>(args)...}});
  std::apply([](const auto&... each) { (standin::check_argument(each), ...); }, call->args);
  constexpr standin::Body body = [](void* kept) {
    const auto* self = static_cast<const Call*>(kept);
    std::apply(self->kernel, self->args);
  };
  return standin::launch(reinterpret_cast<const void*>(kernel), *config, body, std::move(call));
}
