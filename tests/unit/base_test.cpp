#include "base/bfloat16.hpp"
#include "base/error.hpp"
#include "base/handle.hpp"
#include "base/hash.hpp"
#include "base/integers.hpp"

#include <bit>
#include <cmath>
#include <doctest/doctest.h>
#include <limits>

using namespace gpt;

TEST_CASE("bfloat16 rounds to nearest, ties to even, and keeps infinities and NaN") {
  CHECK(static_cast<float>(bfloat16(1.0F)) == 1.0F);
  CHECK(static_cast<float>(bfloat16(1.00390625F)) == 1.0F);       // halfway between 1 and 1+2^-7: to even
  CHECK(static_cast<float>(bfloat16(1.01171875F)) == 1.015625F);  // halfway, odd below: up
  CHECK(static_cast<float>(bfloat16(1.0040F)) == 1.0078125F);
  CHECK(std::isinf(static_cast<float>(bfloat16(std::numeric_limits<float>::infinity()))));
  CHECK(std::isinf(static_cast<float>(bfloat16(std::numeric_limits<float>::max()))));
  CHECK(std::isnan(static_cast<float>(bfloat16(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(std::isnan(
      static_cast<float>(bfloat16(std::bit_cast<float>(0x7f800001U)))));  // payload in the low half
}

TEST_CASE("parts of a total are contiguous, cover it and differ by one at most") {
  for (int64_t total : {0, 1, 7, 32, 1000})
    for (int64_t parts : {1, 2, 3, 5, 8}) {
      int64_t next = 0;
      for (int64_t i = 0; i < parts; ++i) {
        const Range range = part_of(total, parts, i);
        CHECK(range.begin == next);
        CHECK(range.size() >= total / parts);
        CHECK(range.size() <= ceil_div(total, parts));
        next = range.end;
      }
      CHECK(next == total);
    }
}

TEST_CASE("a stream hash equals the hash of the whole, however it is cut") {
  std::string text(100'000, 'x');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31);
  StreamHash hash;
  for (size_t begin = 0, piece = 1; begin < text.size(); begin += piece, piece = piece * 3 % 7919 + 1)
    hash.update(text.data() + begin, std::min(piece, text.size() - begin));
  CHECK(hash.digest() == hash_bytes(text));
  CHECK(to_hex(0xab) == "00000000000000ab");
}

namespace {
int released = 0;
struct CountingTraits {
  using type = int;
  static int null() { return -1; }
  static void release(int) { ++released; }
};
}  // namespace

TEST_CASE("a handle releases once, and not what was moved out or given up") {
  released = 0;
  {
    Handle<CountingTraits> first(1);
    Handle<CountingTraits> second(std::move(first));
    CHECK_FALSE(first);
    CHECK(second.get() == 1);
    second.reset(2);
    CHECK(released == 1);
    Handle<CountingTraits> third(3);
    CHECK(third.release() == 3);
  }
  CHECK(released == 2);
}

TEST_CASE("validate throws its message with its code") {
  CHECK_NOTHROW(validate(true, "not {}", 1));
  try {
    validate(false, ExitCode::damaged, "{} has {}", "file", 3);
    FAIL("must throw");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::damaged);
    CHECK(std::string(error.what()) == "file has 3");
  }
}
