#include "data/verify.hpp"

#include "data/inspect.hpp"
#include "data/shard_format.hpp"
#include "support/errors.hpp"
#include "support/faults.hpp"
#include "support/scratch_folder.hpp"
#include "unit/small_dataset.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>

using namespace gpt;
using gpt::test::counting;
using gpt::test::error_of;
namespace fs = std::filesystem;

namespace {

const char* const second_shard = "train-00001-of-00002.h5";

bool reports(const VerifyReport& report, const std::string& file, const std::string& text) {
  return std::any_of(report.problems.begin(), report.problems.end(), [&](const std::string& problem) {
    return problem.find(file) != std::string::npos && problem.find(text) != std::string::npos;
  });
}

}  // namespace

TEST_CASE("a whole dataset has no problems") {
  const test::ScratchFolder folder;
  test::write_dataset(folder.path(), counting(5'000'001, 300), 2, 300, counting(100, 300));
  const VerifyReport report = verify(folder.path());
  CHECK(report.problems.empty());
  CHECK(report.shards == 3);
  CHECK(report.tokens == 5'000'101);
}

TEST_CASE("every flipped byte of the tokens is found, with its block") {
  const test::ScratchFolder folder;
  test::write_dataset(folder.path(), counting(2 * checksum_block_bytes, 300), 2, 300);
  test::damage(folder / second_shard, "/tokens", checksum_block_bytes + 100, "\x7F");
  const VerifyReport report = verify(folder.path());
  CHECK(report.problems.size() == 2);
  CHECK(reports(report, second_shard, "tokens 2097152 to 4194303 have the checksum"));
  CHECK(reports(report, second_shard, "the manifest says"));
}

TEST_CASE("what a disk damages while a shard is written is found, and what it refuses is told") {
  for (const char* action : {"flip", "short"}) {
    CAPTURE(action);
    const test::ScratchFolder folder;
    const test::Faults faults(std::string("shard.write:") + action + "@hit=2");
    test::write_dataset(folder.path(), counting(checksum_block_bytes, 300), 2, 300);
    CHECK(reports(verify(folder.path()), second_shard, "have the checksum"));
  }
  const test::ScratchFolder folder;
  const test::Faults faults("shard.write:full@hit=1");
  const std::string message = test::failure(
      ExitCode::failed, [&] { test::write_dataset(folder.path(), counting(1000, 300), 1, 300); });
  CHECK(message.find("No space left on device") != std::string::npos);
  CHECK_FALSE(fs::exists(folder / "train-00000-of-00001.h5"));
}

TEST_CASE("a token outside the vocabulary is named with offset and value") {
  const test::ScratchFolder folder;
  test::write_dataset(folder.path(), counting(1000, 300), 2, 300);
  test::damage(folder / second_shard, "/tokens", 2 * 77, "\x2C\x01");
  CHECK(reports(verify(folder.path()), second_shard,
                "token 300 at offset 77 is outside the vocabulary of 300"));
}

TEST_CASE("damaged checksums, documents and missing shards are each reported, the others still read") {
  const test::ScratchFolder folder;
  test::write_dataset(folder.path(), counting(1000, 300), 2, 300, counting(10, 300));
  test::damage(folder / second_shard, "/checksums", 0, "\x01\x02");
  CHECK(reports(verify(folder.path()), second_shard, "written was"));
  test::write_dataset(folder.path(), counting(1000, 300), 2, 300, counting(10, 300));
  test::damage(folder / second_shard, "/documents", 0, "\x05");
  CHECK(reports(verify(folder.path()), second_shard, "entry 0 is 5"));
  fs::remove(folder / "train-00000-of-00002.h5");
  fs::remove(folder / "val-00000-of-00001.h5");
  const VerifyReport report = verify(folder.path());
  CHECK(report.problems.size() == 3);
  CHECK(reports(report, "train-00000-of-00002.h5", ""));
  CHECK(reports(report, "val-00000-of-00001.h5", ""));
}

TEST_CASE("shards in each other's place and out of balance are reported") {
  const test::ScratchFolder folder;
  test::write_dataset(folder.path(), counting(1000, 300), 2, 300);
  fs::rename(folder / "train-00000-of-00002.h5", folder / "x");
  fs::rename(folder / second_shard, folder / "train-00000-of-00002.h5");
  fs::rename(folder / "x", folder / second_shard);
  const VerifyReport swapped = verify(folder.path());
  CHECK(reports(swapped, "train-00000-of-00002.h5", "the manifest promises"));
  CHECK(reports(swapped, second_shard, "the manifest promises"));

  Manifest manifest = test::write_dataset(folder.path(), counting(1000, 300), 2, 300);
  ShardWriter writer(folder.path(), second_shard, manifest, Split::train, 502);
  writer.append(counting(502, 300));
  manifest.train[1] = writer.finish();
  manifest.write(folder.path());
  const VerifyReport unbalanced = verify(folder.path());
  REQUIRE(unbalanced.problems.size() == 1);
  CHECK(reports(unbalanced, second_shard, "has 502"));
}

TEST_CASE("without a manifest there is nothing to verify") {
  const test::ScratchFolder folder;
  const Error empty = error_of([&] { verify(folder.path()); });
  CHECK(empty.code() == ExitCode::usage);
  CHECK(test::says(empty, "is not a dataset"));
  CHECK(!test::says(empty, "--overwrite"));
  CHECK(error_of([&] { verify(folder / "none"); }).code() == ExitCode::usage);
  test::write_bytes(folder / "config.ini", "steps = 1");
  const Error run = error_of([&] { describe_dataset(folder.path(), 7, 6); });
  CHECK(run.code() == ExitCode::usage);
  CHECK(test::says(run, "is a run folder, not a dataset"));
}

TEST_CASE("inspection shows counts, and no control character of the data reaches the terminal") {
  const test::ScratchFolder path;
  Manifest manifest;
  manifest.tokenizer = make_byte_tokenizer()->serialize();
  manifest.source = "x\x1b[31m";
  manifest.entropy = 0.5;
  OutputFolder folder(path.path(), true);
  DatasetWriter writer(folder, manifest, {100, 2, 0, 0});
  std::vector<Token> tokens(100, 'a');
  tokens[1] = 27;
  tokens[2] = '\n';
  tokens[3] = 0xFF;
  tokens[4] = 0xC2;  // U+009B, a control character of two bytes
  tokens[5] = 0x9B;
  writer.append(tokens);
  writer.finish();
  const std::string text = describe_dataset(path.path(), 7, 6);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find("a\\x1b\n\\xff\\xc2\\x9b\n") != std::string::npos);
  CHECK(text.find("100 tokens in 2 shards of 50") != std::string::npos);
  CHECK(text.find("14 windows of --context 7 per epoch (7 in each shard), 2 tokens over") !=
        std::string::npos);
  CHECK(text.find("256 different tokens, stored in 1 byte each") != std::string::npos);
  CHECK(text.find("0.500000 nats") != std::string::npos);
  CHECK(error_of([&] { describe_dataset(path.path(), 0, 6); }).code() == ExitCode::usage);
  CHECK(error_of([&] { describe_dataset(path.path(), 7, -1); }).code() == ExitCode::usage);
  CHECK(!describe_dataset(path.path(), int64_t{1} << 62, 1000).empty());
}
