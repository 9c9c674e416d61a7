#pragma once

#include "base/bfloat16.hpp"

#include <cstdint>

namespace gpt {

enum class DType { f32, bf16, f64, i32 };

constexpr int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return 2;
    case DType::f64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
  }
  return 0;
}

constexpr const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::bf16:
      return "bf16";
    case DType::f64:
      return "f64";
    case DType::i32:
      return "i32";
  }
  return "?";
}

template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::f32;
}
template <>
constexpr DType dtype_of<bfloat16>() {
  return DType::bf16;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::f64;
}
template <>
constexpr DType dtype_of<int32_t>() {
  return DType::i32;
}

}  // namespace gpt
