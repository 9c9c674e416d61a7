#include "attention_case.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

namespace gpt::test {

AttentionCase attention_case(const reference::AttentionSizes& s, const Dropout& dropout, DType type) {
  const int64_t elements = s.sequences * s.positions * s.width();
  AttentionCase made{.qkv = rounded(random_floats(3 * elements, 1), type),
                     .dy = rounded(random_floats(elements, 2), type),
                     .expected = {},
                     .expected_dqkv = {}};
  made.expected = reference::attention(s, made.qkv, dropout);
  made.expected_dqkv = reference::attention_backward(s, made.dy, made.qkv, dropout);
  return made;
}

std::string attention_name(const reference::AttentionSizes& s, const Dropout& dropout, DType type) {
  return fmt::format("{} dropout {} {}",
                     case_name("attention", {s.sequences, s.positions, s.heads, s.head_size}), dropout.rate,
                     name_of(type));
}

void check_gradients(const reference::AttentionSizes& s, DType type, bool in_pairs, const Array& dqkv,
                     const Array& expected) {
  const GradientErrors errors = gradient_errors(s, dqkv, expected);
  const GradientErrors allowed = tolerance_of_gradients(type, in_pairs);
  CHECK(errors.dq < allowed.dq);
  CHECK(errors.dk < allowed.dk);
  CHECK(errors.dv < allowed.dv);
}

}  // namespace gpt::test
