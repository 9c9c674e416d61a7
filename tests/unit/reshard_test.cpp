#include "data/reshard.hpp"

#include "data/pack.hpp"
#include "data/verify.hpp"
#include "support/scratch_folder.hpp"
#include "unit/small_dataset.hpp"

#include <doctest/doctest.h>
#include <filesystem>

using namespace gpt;
using gpt::test::counting;
using gpt::test::error_of;
using gpt::test::says;

TEST_CASE("resharding keeps tokens, order, validation and documents, and cuts evenly") {
  const test::ScratchFolder folder;
  std::string text;
  for (int i = 0; i < 200; ++i) text += fmt::format("document number {}\n\n", i * i);
  test::write_bytes(folder / "text.txt", text);
  PackOptions options;
  options.inputs = {folder / "text.txt"};
  options.out = folder / "three";
  options.separator = "\n\n";
  options.shards = 3;
  options.val_shards = 2;
  const Manifest three = pack(options).manifest;
  const auto tokens = test::tokens_of(options.out, Split::train);

  const auto to = [&](const std::string& from, const std::string& out, int64_t shards) {
    ReshardOptions reshaping;
    reshaping.data = folder / from;
    reshaping.out = folder / out;
    reshaping.shards = shards;
    return reshard(reshaping);
  };
  const Manifest seven = to("three", "seven", 7);
  REQUIRE(seven.train.size() == 7);
  CHECK(test::tokens_of(folder / "seven", Split::train) == tokens);
  CHECK(test::tokens_of(folder / "seven", Split::val) == test::tokens_of(folder / "three", Split::val));
  CHECK(seven.val.size() == 2);
  CHECK(seven.seed == three.seed);
  for (const ShardInfo& shard : seven.train) CHECK(std::abs(shard.tokens - seven.train.front().tokens) <= 1);
  CHECK(verify(folder / "seven").problems.empty());

  // Back at three shards every byte is as at first: documents that were cut are joined again.
  CHECK(to("seven", "back", 3).fingerprint() == three.fingerprint());
  for (const auto& entry : std::filesystem::directory_iterator(folder / "three")) {
    const std::string name = entry.path().filename().string();
    CHECK(test::bytes_of(folder / "three/" + name) == test::bytes_of(folder / "back/" + name));
  }
}

TEST_CASE("resharding refuses its own folder, too many shards and a damaged source") {
  const test::ScratchFolder folder;
  test::write_dataset(folder / "data", counting(100, 300), 2, 300);
  ReshardOptions options;
  options.data = folder / "data";
  options.out = folder / "data/../data";
  options.overwrite = true;
  options.shards = 4;
  CHECK(says(error_of([&] { reshard(options); }), "is the dataset itself"));
  options.out = folder / "out";
  options.shards = 51;
  CHECK(says(error_of([&] { reshard(options); }), "100 training tokens are too few for 51 shards"));
  options.shards = 0;
  CHECK(error_of([&] { reshard(options); }).code() == ExitCode::usage);
  options.shards = 4;
  test::damage(folder / "data/train-00001-of-00002.h5", "/tokens", 6, "\x01");
  const Error damaged = error_of([&] { reshard(options); });
  CHECK(damaged.code() == ExitCode::damaged);
  CHECK(says(damaged, "train-00001-of-00002.h5"));
  CHECK(!std::filesystem::exists(folder / "out"));
}
