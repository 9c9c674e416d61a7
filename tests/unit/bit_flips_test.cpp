#include "base/error.hpp"
#include "base/philox.hpp"
#include "support/scratch_folder.hpp"
#include "support/small_checkpoint.hpp"
#include "train/checkpoint_format.hpp"
#include "train/checkpoint_verify.hpp"

#include <algorithm>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fstream>
#include <random>
#include <string_view>

namespace gpt {
namespace {

using test::load_all;
using test::ScratchFolder;
using test::SmallState;

// Its state takes two blocks, so that there is a gap before it, which alignment leaves.
constexpr GptConfig model{.layers = 6, .heads = 2, .width = 128, .context = 32, .vocabulary = 256};

/// GPT_TEST_NAME as a number, or what is used without it.
uint64_t setting(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

constexpr const char* gaps = "metadata and gaps";

/// What a checkpoint's bytes are.
struct Area {
  const char* name;
  Range bytes;
};

/// The file cut into areas that are guarded in different ways.
std::vector<Area> areas_of(const std::string& file) {
  const OpenCheckpoint checkpoint = open_checkpoint(file);
  const int64_t size = checkpoint.record.file_size;
  std::vector<Area> areas{{"commit record", {size - CommitRecord::bytes, size}}};
  for (const std::string& name : state_names(checkpoint)) {
    areas.push_back({"state", extent_of(checkpoint.file.open_dataset(state_path(name)))});
    areas.push_back({"checksums", extent_of(checkpoint.file.open_dataset(checksum_path(name)))});
  }
  int64_t begin = 0;
  for (const Range& extent : checkpoint.record.extents) {
    areas.push_back({gaps, {begin, extent.begin}});
    begin = extent.end;
  }
  areas.push_back({gaps, {begin, size - CommitRecord::bytes}});
  std::erase_if(areas, [](const Area& area) { return area.bytes.empty(); });
  return areas;
}

/// A flipped bit in a file, until the object is gone.
class Flip {
public:
  Flip(const std::string& file, int64_t byte, int bit)
      : stream_(file, std::ios::in | std::ios::out | std::ios::binary), byte_(byte) {
    stream_.seekg(byte);
    old_ = static_cast<char>(stream_.get());
    put(static_cast<char>(old_ ^ (1 << bit)));
  }
  ~Flip() { put(old_); }
  Flip(const Flip&) = delete;
  Flip& operator=(const Flip&) = delete;

private:
  void put(char value) {
    stream_.seekp(byte_);
    stream_.put(value).flush();
  }

  std::fstream stream_;
  int64_t byte_;
  char old_ = 0;
};

bool loads(const std::string& file) {
  try {
    load_all(file);
    return true;
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::damaged);
    return false;
  }
}

// GPT_TEST_FLIPS=200 for the long form, GPT_TEST_SEED to repeat one.
TEST_CASE("a bit flipped anywhere in a checkpoint is found by verification and by loading") {
  const uint64_t seed = setting("GPT_TEST_SEED", std::random_device{}());
  const uint64_t flips = setting("GPT_TEST_FLIPS", 40);
  MESSAGE("GPT_TEST_SEED=" << seed << " GPT_TEST_FLIPS=" << flips);
  const ScratchFolder folder;
  SmallState state(model);
  const std::string file = state.save(folder.path(), state.header(1));
  const std::vector<Area> areas = areas_of(file);
  CHECK(checkpoint_blocks(state.layout.size()) == 2);
  const auto is_gap = [](const Area& area) {
    return std::string_view(area.name) == gaps && area.bytes.size() > (int64_t{1} << 20);
  };
  CHECK(std::ranges::any_of(areas, is_gap));
  REQUIRE(examine_checkpoint(file).damage.empty());
  REQUIRE(loads(file));

  uint64_t found = 0;
  for (uint64_t i = 0; i < flips; ++i) {
    // One half anywhere in the file, where nearly all is state, the other in every area in turn.
    const uint64_t random = random_bits(seed, i);
    const Area whole{"anywhere", {0, areas.front().bytes.end}};
    const Area& area = i % 2 == 0 ? whole : areas[i / 2 % areas.size()];
    const int64_t byte =
        area.bytes.begin + static_cast<int64_t>((random >> 3) % static_cast<uint64_t>(area.bytes.size()));
    const Flip flip(file, byte, static_cast<int>(random % 8));
    CAPTURE(area.name);
    CAPTURE(byte);
    const bool verified = examine_checkpoint(file).damage.empty();
    CHECK_FALSE(verified);
    const bool loaded = loads(file);
    CHECK_FALSE(loaded);
    if (!verified && !loaded) ++found;
  }
  CHECK(found == flips);
  CHECK(examine_checkpoint(file).damage.empty());
}

}  // namespace
}  // namespace gpt
