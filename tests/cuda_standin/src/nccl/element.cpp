#include "element.hpp"

#include "../failure.hpp"
#include "../number.hpp"

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace standin {
namespace {

struct Bf16 {
  uint16_t bits;
  float value() const { return bf16_to_float(bits); }
  static Bf16 of(float value) { return {float_to_bf16(value)}; }
};

template <class T>
struct Plain {
  T bits;
  T value() const { return bits; }
  static Plain of(T value) { return {value}; }
};

template <class T>
T reduce(T a, T b, ncclRedOp_t reduction) {
  switch (reduction) {
    case ncclProd:
      return T(a * b);
    case ncclMax:
      return std::max(a, b);
    case ncclMin:
      return std::min(a, b);
    default:
      return T(a + b);
  }
}

template <class Element>
void combine_as(void* into, const void* contributions, size_t count, int ranks, ncclRedOp_t reduction) {
  auto* result = static_cast<Element*>(into);
  const auto* parts = static_cast<const Element*>(contributions);
  using Value = decltype(parts->value());
  const bool mean = reduction == ncclAvg;
  // A mean of floating-point numbers is a sum of parts that were scaled before, one of integers is divided at
  // the end.
  const auto part = [&](size_t index) {
    const Value value = parts[index].value();
    if constexpr (std::is_floating_point_v<Value>)
      if (mean) return Element::of(value * (Value(1) / Value(ranks))).value();
    return value;
  };
  for (size_t i = 0; i < count; ++i) {
    Value value = part(i);
    for (int rank = 1; rank < ranks; ++rank)
      value = Element::of(reduce(value, part(size_t(rank) * count + i), reduction)).value();
    if constexpr (std::is_integral_v<Value>)
      if (mean) value = Value(value / Value(ranks));
    result[i] = Element::of(value);
  }
}

}  // namespace

size_t element_bytes(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 0;
  }
}

const char* type_name(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return "int8";
    case ncclUint8:
      return "uint8";
    case ncclBfloat16:
      return "bfloat16";
    case ncclInt32:
      return "int32";
    case ncclUint32:
      return "uint32";
    case ncclFloat32:
      return "float32";
    case ncclInt64:
      return "int64";
    case ncclUint64:
      return "uint64";
    case ncclFloat64:
      return "float64";
    default:
      return "unknown type";
  }
}

const char* reduction_name(ncclRedOp_t reduction) {
  switch (reduction) {
    case ncclSum:
      return "sum";
    case ncclProd:
      return "product";
    case ncclMax:
      return "maximum";
    case ncclMin:
      return "minimum";
    case ncclAvg:
      return "mean";
    default:
      return "unknown reduction";
  }
}

void combine(void* into, const void* contributions, size_t count, int ranks, ncclDataType_t type,
             ncclRedOp_t reduction) {
  switch (type) {
    case ncclInt8:
      return combine_as<Plain<int8_t>>(into, contributions, count, ranks, reduction);
    case ncclUint8:
      return combine_as<Plain<uint8_t>>(into, contributions, count, ranks, reduction);
    case ncclBfloat16:
      return combine_as<Bf16>(into, contributions, count, ranks, reduction);
    case ncclInt32:
      return combine_as<Plain<int32_t>>(into, contributions, count, ranks, reduction);
    case ncclUint32:
      return combine_as<Plain<uint32_t>>(into, contributions, count, ranks, reduction);
    case ncclFloat32:
      return combine_as<Plain<float>>(into, contributions, count, ranks, reduction);
    case ncclInt64:
      return combine_as<Plain<int64_t>>(into, contributions, count, ranks, reduction);
    case ncclUint64:
      return combine_as<Plain<uint64_t>>(into, contributions, count, ranks, reduction);
    case ncclFloat64:
      return combine_as<Plain<double>>(into, contributions, count, ranks, reduction);
    default:
      fail("NCCL: elements of type {} cannot be combined", int(type));
  }
}

}  // namespace standin
