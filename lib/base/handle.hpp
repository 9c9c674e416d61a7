#pragma once

#include <utility>

namespace gpt {

/// Sole owner of a C handle. `Traits` gives `type`, `null()` and `release(type)`.
template <class Traits>
class Handle {
public:
  using type = typename Traits::type;

  Handle() = default;
  explicit Handle(type raw) : raw_(raw) {}
  Handle(Handle&& other) noexcept : raw_(other.release()) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~Handle() { reset(); }

  type get() const { return raw_; }
  explicit operator bool() const { return raw_ != Traits::null(); }

  /// Gives the handle up: the caller now owns it.
  type release() { return std::exchange(raw_, Traits::null()); }

  void reset(type raw = Traits::null()) {
    if (raw_ != Traits::null()) Traits::release(raw_);
    raw_ = raw;
  }

private:
  type raw_ = Traits::null();
};

}  // namespace gpt
