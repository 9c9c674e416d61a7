#include "train/commit_record.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "support/errors.hpp"
#include "support/scratch_folder.hpp"

#include <cstring>
#include <doctest/doctest.h>
#include <functional>

namespace gpt {
namespace {

using test::says;

using Raw = std::array<std::byte, CommitRecord::bytes>;

const CommitRecord example{.step = 20,
                           .run_id = 0xfedcba9876543210,
                           .branch = 3,
                           .parent_step = 10,
                           .file_size = 100000,
                           .digest = 0x0123456789abcdef,
                           .extents = {{1000, 5000}, {5000, 5000}, {60000, 95904}}};

std::string damage(const std::function<void()>& work) { return test::failure(ExitCode::damaged, work); }

/// Sets a number and makes the record's own checksum right again, as an enemy would.
Raw forged(size_t offset, int64_t value) {
  Raw raw = encode_commit_record(example);
  std::memcpy(raw.data() + offset, &value, 8);
  const uint64_t checksum = hash_bytes(raw.data(), raw.size() - 8);
  std::memcpy(raw.data() + raw.size() - 8, &checksum, 8);
  return raw;
}

TEST_CASE("a commit record comes back, and its bytes are those that are documented") {
  const Raw raw = encode_commit_record(example);
  CHECK(decode_commit_record(raw, 100000) == example);
  CHECK(std::memcmp(raw.data(), "GPTMPICK", 8) == 0);
  const auto number = [&](size_t offset) {
    int64_t value = 0;
    std::memcpy(&value, raw.data() + offset, 8);
    return value;
  };
  CHECK(number(8) == 1);
  CHECK(number(16) == 20);
  CHECK(static_cast<uint64_t>(number(24)) == example.run_id);
  CHECK(number(32) == 3);
  CHECK(number(40) == 10);
  CHECK(number(48) == 100000);
  CHECK(number(56) == 0x0123456789abcdef);
  CHECK(number(64) == 3);
  CHECK(number(72) == 1000);
  CHECK(number(80) == 5000);
  CHECK(number(112) == 95904);
  CHECK(number(120) == 0);
  CHECK(static_cast<uint64_t>(number(4088)) == hash_bytes(raw.data(), 4088));
}

TEST_CASE("every flipped bit of a commit record is found") {
  const Raw raw = encode_commit_record(example);
  for (size_t bit = 0; bit < 8 * raw.size(); ++bit) {
    Raw damaged = raw;
    damaged[bit / 8] ^= std::byte{1} << (bit % 8);
    if (damage([&] { decode_commit_record(damaged, 100000); }).empty())
      FAIL("bit " << bit << " was not found");
  }
}

TEST_CASE("numbers that a right checksum makes credible are still checked") {
  CHECK_NOTHROW(decode_commit_record(forged(16, 21), 100000));
  says(damage([&] { decode_commit_record(forged(8, 2), 100000); }), "has format 2, this program reads 1");
  says(damage([&] { decode_commit_record(forged(16, -1), 100000); }), "step -1");
  says(damage([&] { decode_commit_record(forged(32, -1), 100000); }), "branch -1");
  says(damage([&] { decode_commit_record(forged(40, -2), 100000); }), "parent step -2");
  says(damage([&] { decode_commit_record(forged(48, 99999), 100000); }), "has 100000 bytes, but 99999 were");
  says(damage([&] { decode_commit_record(forged(64, 251), 100000); }), "lists 251 extents");
  says(damage([&] { decode_commit_record(forged(64, -1), 100000); }), "extents");
  says(damage([&] { decode_commit_record(forged(72, -5), 100000); }), "out of place");
  says(damage([&] { decode_commit_record(forged(72, 5001), 100000); }), "out of place");
  says(damage([&] { decode_commit_record(forged(88, 4999), 100000); }), "out of place");
  says(damage([&] { decode_commit_record(forged(112, 95905), 100000); }), "out of place");
}

TEST_CASE("the digest is that of the bytes outside the extents, in order") {
  const test::ScratchFolder folder;
  std::string bytes;
  for (int i = 0; i < 3000000; ++i) bytes += static_cast<char>(i % 251);
  test::write_bytes(folder / "file", bytes);
  const std::vector<Range> extents = {{10, 20}, {20, 20}, {1000000, 1500000}};
  const int64_t end = 2900000;
  const std::string rest = bytes.substr(0, 10) + bytes.substr(20, 999980) + bytes.substr(1500000, 1400000);
  CHECK(digest_of_rest(folder / "file", end, extents) == hash_bytes(rest));
  CHECK(digest_of_rest(folder / "file", 0, {}) == hash_bytes(""));
  says(damage([&] { digest_of_rest(folder / "file", 3000001, extents); }), "ends before byte 3000001");
}

TEST_CASE("files without a commit record are told apart") {
  const test::ScratchFolder folder;
  const auto fault = [&](const std::string& bytes) {
    test::write_bytes(folder / "file", bytes);
    return damage([&] { read_commit_record(folder / "file"); });
  };
  says(fault(""), "it has 0 bytes");
  says(fault(std::string(4095, 'x')), "it has 4095 bytes");
  says(fault(std::string(100000, 'x')), "no commit record");
  const Raw raw = encode_commit_record(example);
  const std::string record(reinterpret_cast<const char*>(raw.data()), raw.size());
  CHECK(fault(std::string(95904, '\0') + record).empty());
  says(fault(std::string(95903, '\0') + record), "has 99999 bytes, but 100000 were committed");
  says(fault(std::string(95904, '\0') + record + "x"), "no commit record");
  says(damage([&] { read_commit_record(folder / "none"); }), "No such file");
  says(damage([&] { read_commit_record(folder.path()); }), "not a regular file");
}

}  // namespace
}  // namespace gpt
