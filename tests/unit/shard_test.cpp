#include "data/shard.hpp"

#include "base/hash.hpp"
#include "data/dataset.hpp"
#include "data/shard_documents.hpp"
#include "data/shard_format.hpp"
#include "data/verify.hpp"
#include "support/scratch_folder.hpp"
#include "unit/small_dataset.hpp"

#include <doctest/doctest.h>
#include <filesystem>

using namespace gpt;
using gpt::test::counting;
using gpt::test::error_of;
using gpt::test::says;
namespace fs = std::filesystem;

namespace {

const char* const first_shard = "train-00000-of-00001.h5";

Error opening(const std::string& folder) {
  const Manifest manifest = Manifest::read(folder);
  return error_of([&] { Shard::open(folder, manifest.train.front(), manifest); });
}

}  // namespace

TEST_CASE("tokens of every width come back exactly, at the edges of their types too") {
  for (const int64_t vocabulary : {256, 257, 65536, 65537, 70001}) {
    CAPTURE(vocabulary);
    const test::ScratchFolder folder;
    std::vector<Token> tokens = counting(100'000, vocabulary);
    for (const Token edge : {0, 255, 256, 65535, 65536, 70000}) {
      if (edge < vocabulary) tokens.push_back(edge);
    }
    tokens.push_back(static_cast<Token>(vocabulary - 1));
    const Manifest manifest = test::write_dataset(folder.path(), tokens, 3, vocabulary, {1, 2, 3});
    CHECK(manifest.token_bytes == token_bytes_for(vocabulary));
    CHECK(test::tokens_of(folder.path(), Split::train) == tokens);
    CHECK(test::tokens_of(folder.path(), Split::val) == std::vector<Token>{1, 2, 3});
  }
}

TEST_CASE("shards of more than one checksum block are cut at 4 MiB") {
  const test::ScratchFolder folder;
  const auto tokens = counting(checksum_block_bytes / 2 * 2 + 5, 300);
  test::write_dataset(folder.path(), tokens, 1, 300);
  CHECK(test::tokens_of(folder.path(), Split::train) == tokens);
  const H5Dataset checksums = H5File::open(folder / first_shard).open_dataset("/checksums");
  CHECK(checksums.size() == 3);
}

TEST_CASE("the writer refuses tokens outside the vocabulary and wrong counts, and leaves no file") {
  const test::ScratchFolder folder;
  Manifest manifest;
  manifest.tokenizer = make_id_tokenizer(10)->serialize();
  manifest.vocabulary = 10;
  manifest.token_bytes = 1;
  const auto writing = [&](const std::vector<Token>& tokens) {
    return error_of([&] {
      ShardWriter writer(folder.path(), "x.h5", manifest, Split::train, 3);
      CHECK(!fs::exists(folder / "x.h5"));
      writer.append(tokens);
      writer.finish();
    });
  };
  const Error outside = writing({1, 10, 2});
  CHECK(outside.code() == ExitCode::damaged);
  CHECK(says(outside, "token 10 at offset 1"));
  CHECK(says(writing({1, -1, 2}), "token -1 at offset 1"));
  CHECK(says(writing({1, 2}), "2 tokens came where 3"));
  CHECK(says(writing({1, 2, 3, 4}), "more than the 3"));
  CHECK(fs::is_empty(folder.path()));
  CHECK(writing({1, 2, 3}).code() == ExitCode::finished);
  CHECK(fs::exists(folder / "x.h5"));
}

TEST_CASE("a dataset stays until its successor is complete, and comes back if that cannot be published") {
  const test::ScratchFolder folder;
  const std::string path = folder.path();
  const uint64_t old = test::write_dataset(path, counting(100, 300), 4, 300, {1, 2}).fingerprint();
  const auto is_old = [&] {
    return Manifest::read(path).fingerprint() == old && verify(path).problems.empty() &&
           std::distance(fs::directory_iterator(path), {}) == 6;
  };
  REQUIRE(is_old());
  Manifest manifest;
  manifest.tokenizer = make_id_tokenizer(300)->serialize();
  {
    OutputFolder output(path, true);
    DatasetWriter writer(output, manifest, {200, 4, 0, 0});
    writer.append(counting(199, 300));
    CHECK(verify(path).problems.empty());  // as a program would leave it that is killed here
    CHECK(Manifest::read(path).fingerprint() == old);
    CHECK(says(error_of([&] { writer.finish(); }), "fewer tokens came"));
  }
  CHECK(is_old());
  {
    OutputFolder output(path, true);
    DatasetWriter writer(output, manifest, {200, 4, 0, 0});
    writer.append(counting(200, 300));
    fs::remove(output.staging() + "/train-00002-of-00004.h5");
    CHECK(error_of([&] { writer.finish(); }).code() == ExitCode::failed);
  }
  CHECK(is_old());
  test::write_dataset(path, counting(200, 300), 3, 300);
  CHECK(verify(path).problems.empty());
  CHECK(std::distance(fs::directory_iterator(path), {}) == 4);
}

TEST_CASE("an exchange that fails half-way is undone") {
  const test::ScratchFolder folder;
  const std::string path = folder.path();
  const uint64_t old = test::write_dataset(path, counting(100, 300), 2, 300).fingerprint();
  {
    OutputFolder output(path, true);
    for (const char* name : {"dataset.h5", "train-00000-of-00002.h5", "notes.h5"}) {
      test::write_bytes(output.staging() + "/" + name, "new");
    }
    fs::create_directories(path + "/notes.h5/a folder that no file can replace");
    const Error error = error_of([&] { output.publish({"train-00000-of-00002.h5", "notes.h5"}); });
    CHECK(says(error, "cannot rename"));
    fs::remove_all(path + "/notes.h5");
  }
  CHECK(Manifest::read(path).fingerprint() == old);
  CHECK(verify(path).problems.empty());
  CHECK(std::distance(fs::directory_iterator(path), {}) == 3);
}

TEST_CASE("reading is bounded by the shard") {
  const test::ScratchFolder folder;
  const Manifest manifest = test::write_dataset(folder.path(), counting(20'000, 300), 1, 300);
  const Shard shard = Shard::open(folder.path(), manifest.train.front(), manifest);
  std::vector<Token> out(17'000, -5);
  shard.read(3000, out);
  CHECK(out.front() == 0);
  CHECK(out.back() == 19'999 % 300);
  std::vector<Token> one(1);
  shard.read(19'999, one);
  for (const int64_t begin : {int64_t{20'000}, int64_t{-1}, int64_t{1} << 62}) {
    CHECK(error_of([&] { shard.read(begin, one); }).code() == ExitCode::failed);
  }
  CHECK(error_of([&] { shard.read(3001, out); }).code() == ExitCode::failed);
}

TEST_CASE("a stored token outside the vocabulary is reported with file, offset and value") {
  const test::ScratchFolder folder;
  const Manifest manifest = test::write_dataset(folder.path(), counting(20'000, 300), 1, 300);
  test::damage(folder / first_shard, "/tokens", 2 * 12'345, "\x2C\x01");
  const Shard shard = Shard::open(folder.path(), manifest.train.front(), manifest);
  std::vector<Token> out(20'000);
  const Error error = error_of([&] { shard.read(0, out); });
  CHECK(error.code() == ExitCode::damaged);
  CHECK(says(error, first_shard));
  CHECK(says(error, "token 300 at offset 12345"));
  out.resize(12'345);
  shard.read(0, out);  // what stands before it is still good
}

TEST_CASE("a 32-bit token above the signed range is reported, not wrapped") {
  const test::ScratchFolder folder;
  const Manifest manifest = test::write_dataset(folder.path(), counting(100, 70'000), 1, 70'000);
  test::damage(folder / first_shard, "/tokens", 4 * 5, "\xFF\xFF\xFF\xFF");
  const Shard shard = Shard::open(folder.path(), manifest.train.front(), manifest);
  std::vector<Token> out(100);
  CHECK(says(error_of([&] { shard.read(0, out); }), "token 4294967295 at offset 5"));
}

TEST_CASE("missing, truncated and foreign shards are refused, naming the file") {
  const test::ScratchFolder folder;
  const auto fresh = [&] { test::write_dataset(folder.path(), counting(10'000, 300), 1, 300); };
  const auto check = [&](const char* reason) {
    const Error error = opening(folder.path());
    CAPTURE(error.what());
    CHECK(error.code() == ExitCode::damaged);
    CHECK(says(error, first_shard));
    CHECK(says(error, reason));
  };
  fresh();
  fs::remove(folder / first_shard);
  check("");
  fresh();
  fs::resize_file(folder / first_shard, fs::file_size(folder / first_shard) * 9 / 10);
  check("");
  fresh();
  fs::resize_file(folder / first_shard, 0);
  check("");
  test::write_bytes(folder / first_shard, "some text instead");
  check("");
  { const H5File empty = H5File::create(folder / first_shard); }
  check("kind");

  const test::ScratchFolder other;  // the same shape, other contents
  test::write_dataset(other.path(), counting(10'000, 299), 1, 300);
  fs::copy_file(other / first_shard, folder / first_shard, fs::copy_options::overwrite_existing);
  check("checksum");
  test::write_dataset(other.path(), counting(9'999, 300), 1, 300);
  fs::copy_file(other / first_shard, folder / first_shard, fs::copy_options::overwrite_existing);
  check("number of tokens is 9999");
  test::write_dataset(other.path(), counting(10'000, 300), 1, 301);
  fs::copy_file(other / first_shard, folder / first_shard, fs::copy_options::overwrite_existing);
  check("vocabulary is 301");
}

TEST_CASE("a shard with a dataset of another name or type is refused") {
  const test::ScratchFolder folder;
  const Manifest manifest = test::write_dataset(folder.path(), counting(100, 300), 1, 300);
  const auto write_shard = [&](const std::string& name, H5Element element) {
    H5File file = H5File::create(folder / first_shard);
    file.set_attribute("kind", std::string(shard_kind));
    file.set_attribute("format", Manifest::format);
    file.set_attribute("vocabulary", int64_t{300});
    file.set_attribute("tokenizer_fingerprint", to_hex(hash_bytes(manifest.tokenizer)));
    file.set_attribute("checksum", to_hex(manifest.train.front().checksum));
    file.create_dataset(name, element, 100);
    file.close();
  };
  write_shard("/other", H5Element::u16);
  CHECK(says(opening(folder.path()), "tokens"));
  write_shard("/tokens", H5Element::u64);
  CHECK(says(opening(folder.path()), "bytes per token is 8"));
  write_shard("/tokens", H5Element::f32);
  CHECK(opening(folder.path()).code() == ExitCode::damaged);
  write_shard("/tokens", H5Element::u16);
  CHECK(opening(folder.path()).code() == ExitCode::finished);
}

TEST_CASE("document beginnings are kept, and whether the last document goes on") {
  const test::ScratchFolder path;
  Manifest manifest;
  manifest.tokenizer = make_id_tokenizer(10)->serialize();
  OutputFolder folder(path.path(), true);
  DatasetWriter writer(folder, manifest, {10, 2, 0, 0});
  const auto document = [&](int64_t length) {
    writer.append(counting(length, 10));
    writer.end_document();
    writer.end_document();  // an empty document leaves no trace
  };
  document(2);
  document(3);  // ends with the first shard
  document(1);
  writer.append(counting(4, 10));
  const Manifest written = writer.finish();
  const auto beginnings = [&](int64_t shard) {
    const ShardDocuments documents(path.path(), written.train[static_cast<size_t>(shard)]);
    std::vector<int64_t> begins;
    documents.for_each([&](Range range) { begins.push_back(range.begin); });
    begins.push_back(documents.last_open() ? -1 : -2);
    return begins;
  };
  CHECK(beginnings(0) == std::vector<int64_t>{0, 2, -2});
  CHECK(beginnings(1) == std::vector<int64_t>{0, 1, -1});
  CHECK(written.train[0].documents == 2);

  test::damage(path / "train-00001-of-00002.h5", "/documents", 8, std::string("\x09\0\0\0\0\0\0\x80", 8));
  CHECK(error_of([&] { beginnings(1); }).code() == ExitCode::damaged);
}

TEST_CASE("windows end with the shortest shard, and what is over is counted") {
  const test::ScratchFolder folder;
  constexpr int64_t context = 8;
  for (const int64_t tokens : {16, 17, 18, 33}) {
    CAPTURE(tokens);
    test::write_dataset(folder.path(), counting(tokens, 300), 1, 300);
    Dataset dataset(folder.path());
    const int64_t windows = (tokens - 1) / context;  // a window's last target is one token ahead
    CHECK(dataset.windows_per_shard(Split::train, context) == windows);
    CHECK(dataset.remainder(Split::train, context) == tokens - windows * context);
    CHECK(dataset.windows_per_shard(Split::val, context) == 0);
    dataset.open(Split::train, {0, 1});
    std::vector<Token> window(context + 1);
    for (int64_t i = 0; i < windows; ++i) {
      dataset.read_window(Split::train, 0, i, window);
      CHECK(window.front() == i * context);
      CHECK(window.back() == (i + 1) * context);
    }
    CHECK(error_of([&] { dataset.read_window(Split::train, 0, windows, window); }).code() ==
          ExitCode::failed);
  }
  test::write_dataset(folder.path(), counting(35, 300), 2, 300);  // 17 and 18 tokens
  CHECK(Dataset(folder.path()).windows_per_shard(Split::train, context) == 2);
  CHECK(Dataset(folder.path()).remainder(Split::train, context) == 3);
}
