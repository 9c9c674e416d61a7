// Atomic operations on global and shared memory. Kernels run on one thread at a time, so plain ones would do;
// these also hold against host code that looks on.
#pragma once

#include <type_traits>

namespace standin {

template <class T, class Change>
T exchange(T* address, Change change) {
  T old, next;
  __atomic_load(address, &old, __ATOMIC_RELAXED);
  do {
    next = change(old);
  } while (!__atomic_compare_exchange(address, &old, &next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return old;
}

template <class T>
inline constexpr bool is_atomic_integer =
    std::is_same_v<T, int> || std::is_same_v<T, unsigned> || std::is_same_v<T, unsigned long long>;

}  // namespace standin

template <class T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  static_assert(standin::is_atomic_integer<T> || std::is_same_v<T, float> || std::is_same_v<T, double>);
  return standin::exchange(address, [value](T old) { return T(old + value); });
}
template <class T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  static_assert(standin::is_atomic_integer<T>);
  return standin::exchange(address, [value](T old) { return old > value ? old : value; });
}
template <class T>
T atomicMin(T* address, std::type_identity_t<T> value) {
  static_assert(standin::is_atomic_integer<T>);
  return standin::exchange(address, [value](T old) { return old < value ? old : value; });
}
template <class T>
T atomicOr(T* address, std::type_identity_t<T> value) {
  static_assert(standin::is_atomic_integer<T>);
  return standin::exchange(address, [value](T old) { return old | value; });
}
template <class T>
T atomicAnd(T* address, std::type_identity_t<T> value) {
  static_assert(standin::is_atomic_integer<T>);
  return standin::exchange(address, [value](T old) { return old & value; });
}
template <class T>
T atomicExch(T* address, std::type_identity_t<T> value) {
  static_assert(standin::is_atomic_integer<T> || std::is_same_v<T, float>);
  return standin::exchange(address, [value](T) { return value; });
}
template <class T>
T atomicCAS(T* address, std::type_identity_t<T> compare, std::type_identity_t<T> value) {
  static_assert(standin::is_atomic_integer<T>);
  return standin::exchange(address, [compare, value](T old) { return old == compare ? value : old; });
}
