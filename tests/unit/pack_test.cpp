#include "data/pack.hpp"

#include "data/dataset.hpp"
#include "data/text_reader.hpp"
#include "support/scratch_folder.hpp"
#include "unit/small_dataset.hpp"

#include <algorithm>
#include <clocale>
#include <cmath>
#include <doctest/doctest.h>
#include <filesystem>
#include <set>
#include <sys/stat.h>

using namespace gpt;
using gpt::test::error_of;
using gpt::test::says;
using gpt::test::write_bytes;
namespace fs = std::filesystem;

namespace {

struct Packed {
  Manifest manifest;
  std::string train;
  std::string val;
  std::string all() const { return train + val; }
};

Packed pack_into(const std::string& out, PackOptions options) {
  options.out = out;
  options.overwrite = true;
  const Manifest manifest = pack(options).manifest;
  return {manifest, test::text_of(out, Split::train), test::text_of(out, Split::val)};
}

PackOptions options_for(const std::vector<std::string>& inputs, const std::string& tokenizer = "bytes") {
  PackOptions options;
  options.inputs = inputs;
  options.tokenizer = tokenizer;
  options.shards = 1;
  return options;
}

std::string numbers(int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) text += fmt::format("{} is a number\n", i);
  return text;
}

}  // namespace

TEST_CASE("a single text is split at the tail, cut evenly, and kept byte for byte") {
  const test::ScratchFolder folder;
  const std::string text = numbers(1000) + "no newline at the end";
  write_bytes(folder / "text.txt", text);
  for (const char* tokenizer : {"bytes", "chars"}) {
    auto options = options_for({folder / "text.txt"}, tokenizer);
    options.shards = 7;
    options.val_shards = 2;
    const Packed packed = pack_into(folder / "out", options);
    CHECK(packed.all() == text);
    CHECK(packed.train.size() == text.size() * 9 / 10);
    REQUIRE(packed.manifest.train.size() == 7);
    CHECK(packed.manifest.val.size() == 2);
    for (const ShardInfo& shard : packed.manifest.train) {
      CHECK(std::abs(shard.tokens - static_cast<int64_t>(packed.train.size()) / 7) <= 1);
    }
  }
}

TEST_CASE("a tenth of 1115394 characters leaves 1003854 for training") {
  const SplitPlan plan = SplitPlan::by_fraction(1'115'394, 0.1, 1, 1);
  CHECK(plan.train_tokens == 1'003'854);
  CHECK(plan.val_tokens == 111'540);
  CHECK(SplitPlan::by_fraction(100, 0, 1, 1).val_shards == 0);
}

TEST_CASE("the alphabet is that of the corpus and multi-byte characters cross pieces whole") {
  const test::ScratchFolder folder;
  std::string text;
  while (text.size() < (size_t{3} << 20)) text += "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
  write_bytes(folder / "text.txt", text);
  const Packed packed = pack_into(folder / "out", options_for({folder / "text.txt"}, "chars"));
  CHECK(packed.manifest.vocabulary == 4);
  CHECK(packed.all() == text);
}

TEST_CASE("byte order marks go, CR LF becomes LF, lone CR and NUL stay") {
  const test::ScratchFolder folder;
  const std::string raw(
      "\xEF\xBB\xBF"
      "one\r\ntwo\rthree\n\r\nf\0ur\r\r\n\xEF\xBB\xBF\r",
      29 + 1);
  const std::string expected("one\ntwo\rthree\n\nf\0ur\r\n\xEF\xBB\xBF\r", 24);
  write_bytes(folder / "text.txt", raw);
  for (const char* tokenizer : {"bytes", "chars"}) {
    auto options = options_for({folder / "text.txt"}, tokenizer);
    options.val_fraction = 0;
    CHECK(pack_into(folder / "out", options).train == expected);
  }
}

TEST_CASE("CR LF across the border of two pieces becomes one LF") {
  const test::ScratchFolder folder;
  for (const size_t before : {(size_t{1} << 20) - 2, (size_t{1} << 20) - 1, size_t{1} << 20}) {
    write_bytes(folder / "text.txt", std::string(before, 'x') + "\r\n\r\r\nend");
    const Packed packed = pack_into(folder / "out", options_for({folder / "text.txt"}));
    CHECK(packed.all() == std::string(before, 'x') + "\n\r\nend");
    write_bytes(folder / "text.txt", std::string(before, 'x') + "\rend");
    CHECK(pack_into(folder / "out", options_for({folder / "text.txt"})).all() ==
          std::string(before, 'x') + "\rend");
  }
}

TEST_CASE("a line of many megabytes is a text like any other") {
  const test::ScratchFolder folder;
  const std::string line(size_t{5} << 20, 'x');
  write_bytes(folder / "text.txt", line);
  CHECK(pack_into(folder / "out", options_for({folder / "text.txt"}, "chars")).all() == line);
}

TEST_CASE("invalid UTF-8 is refused for chars with file, offset and remedy, and taken for bytes") {
  const test::ScratchFolder folder;
  const std::string text =
      "\xEF\xBB\xBF"
      "ab\r\n\xC3\xA9 \xE9t\xE9";
  write_bytes(folder / "latin.txt", text);
  auto options = options_for({folder / "latin.txt"}, "chars");
  options.out = folder / "out";
  const Error error = error_of([&] { pack(options); });
  CHECK(error.code() == ExitCode::usage);
  CHECK(says(error, "latin.txt: byte 0xe9 at offset 10"));
  CHECK(says(error, "--tokenizer bytes"));
  CHECK(!fs::exists(folder / "out"));
  options.tokenizer = "bytes";
  options.val_fraction = 0;
  CHECK(pack_into(folder / "out", options).all() == "ab\n\xC3\xA9 \xE9t\xE9");
  options.tokenizer = "chars";
  write_bytes(folder / "cut.txt", "abc\xE2\x82");
  options.inputs = {folder / "cut.txt"};
  options.out = folder / "other";
  CHECK(says(error_of([&] { pack(options); }), "byte 0xe2 at offset 3"));
}

TEST_CASE("documents are shuffled by the seed, whole, each once") {
  const test::ScratchFolder folder;
  fs::create_directories(folder / "in/sub/.hidden");
  std::multiset<std::string> expected;
  for (int i = 0; i < 50; ++i) {
    const std::string name = folder / fmt::format("in/{}{}.txt", i % 2 == 0 ? "sub/" : "", i);
    write_bytes(name, fmt::format("document {}{}", i, i % 3 == 0 ? "\n" : ""));  // packing ends its line
    expected.insert(fmt::format("document {}", i));
  }
  write_bytes(folder / "in/.secret", "hidden file\n");
  write_bytes(folder / "in/sub/.hidden/x", "hidden folder\n");
  write_bytes(folder / "in/empty.txt", "");
  auto options = options_for({folder / "in"}, "chars");
  options.val_fraction = 0;
  const auto lines = [](const std::string& text) {
    std::vector<std::string> all;
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      REQUIRE(end != std::string::npos);
      all.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    return all;
  };
  const Packed first = pack_into(folder / "out", options);
  const auto order = lines(first.all());
  CHECK(std::multiset<std::string>(order.begin(), order.end()) == expected);
  CHECK(!std::is_sorted(order.begin(), order.end()));
  CHECK(first.manifest.train.front().documents == 50);
  CHECK(pack_into(folder / "out", options).all() == first.all());
  options.seed = 1;
  CHECK(pack_into(folder / "out", options).all() != first.all());
}

TEST_CASE("a separator ends documents wherever it stands, across pieces too") {
  const test::ScratchFolder folder;
  const std::string filler((size_t{1} << 20) - 20,
                           'x');  // the third separator begins 2 bytes before a piece ends
  write_bytes(folder / "text.txt", "<end>one<end><end>" + filler + "<end>t\xC3\xA9<end");
  auto options = options_for({folder / "text.txt"}, "chars");
  options.separator = "<end>";
  options.val_fraction = 0;
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    options.seed = seed;
    const Packed packed = pack_into(folder / "out", options);
    CHECK(packed.manifest.train.front().documents == 3);
    CHECK(packed.all().find("<end>") == std::string::npos);
    CHECK(packed.all().find("one\n") != std::string::npos);
    CHECK(packed.all().find(filler + "\n") != std::string::npos);
    CHECK(packed.all().find("t\xC3\xA9<end\n") != std::string::npos);
    CHECK(packed.all().size() == 4 + filler.size() + 1 + 8);
  }
}

TEST_CASE("a separator with line ends matches CR LF, and offsets stay right behind it") {
  const test::ScratchFolder folder;
  write_bytes(folder / "text.txt",
              "\xEF\xBB\xBF"
              "a\r\nb\r\n\r\nc\r\nd\r\n\r\ne\r\n");
  auto options = options_for({folder / "text.txt"});
  options.separator = "\r\n\r\n";
  options.val_fraction = 0;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    options.seed = seed;
    const std::string all = pack_into(folder / "out", options).all();
    CHECK(all.size() == 10);
    for (const char* document : {"a\nb\n", "c\nd\n", "e\n"}) CHECK(all.find(document) != std::string::npos);
  }
}

TEST_CASE(
    "no text, too little text and what cannot be read are refused with numbers before anything is written") {
  const test::ScratchFolder folder;
  write_bytes(folder / "empty.txt", "");
  write_bytes(folder / "mark.txt", "\xEF\xBB\xBF");
  write_bytes(folder / "short.txt", "only forty characters are in this file..");
  fs::create_directories(folder / "hollow");
  mkfifo((folder / "pipe").c_str(), 0600);
  const auto refusal = [&](PackOptions options) {
    options.out = folder / "out/deep";
    const Error error = error_of([&] { pack(options); });
    CHECK(error.code() == ExitCode::usage);
    CHECK(!fs::exists(folder / "out/deep"));
    return error;
  };
  CHECK(says(refusal(options_for({folder / "empty.txt"})), "nothing to pack"));
  CHECK(says(refusal(options_for({folder / "mark.txt"}, "chars")), "nothing to pack"));
  CHECK(says(refusal(options_for({folder / "hollow"})), "holds no files"));
  CHECK(says(refusal(options_for({folder / "none.txt"})), "none.txt"));
  CHECK(says(refusal(options_for({folder / "pipe"})), "not a regular file"));
  CHECK(says(refusal(options_for({})), "--input"));
  CHECK(says(refusal(options_for({folder / "short.txt"}, "words")), "words"));
  auto options = options_for({folder / "short.txt"});
  options.shards = 32;
  const Error small = refusal(options);
  CHECK(says(small, "36 training tokens are too few for 32 shards"));
  CHECK(says(small, "64"));
  options.shards = 0;
  CHECK(says(refusal(options), "--shards 0"));
  options.shards = -1;
  CHECK(says(refusal(options), "--shards -1"));
  options.shards = 4294967297;
  CHECK(says(refusal(options), "4294967297"));
  options.shards = 1;
  for (const double fraction : {-0.1, 1.0, std::nan("")}) {
    options.val_fraction = fraction;
    CHECK(says(refusal(options), "--val-fraction"));
  }
  options.val_fraction = 0.01;
  CHECK(says(refusal(options), "1 validation tokens are too few"));
}

TEST_CASE("a folder in use is replaced only when that was asked for, and only its dataset") {
  const test::ScratchFolder folder;
  write_bytes(folder / "text.txt", numbers(100));
  auto options = options_for({folder / "text.txt"});
  options.out = folder / "out";
  options.shards = 5;
  pack(options);
  const Error refused = error_of([&] { pack(options); });
  CHECK(refused.code() == ExitCode::usage);
  CHECK(says(refused, "--overwrite true"));
  write_bytes(folder / "out/notes.txt", "mine");
  options.overwrite = true;
  options.shards = 2;
  pack(options);
  CHECK(fs::exists(folder / "out/notes.txt"));
  CHECK(!fs::exists(folder / "out/train-00000-of-00005.h5"));
  CHECK(test::text_of(folder / "out", Split::train).size() == numbers(100).size() * 9 / 10);

  options.inputs = {folder.path()};
  CHECK(says(error_of([&] { pack(options); }), "inside the input folder"));
  options.inputs = {folder / "none"};
  CHECK(error_of([&] { pack(options); }).code() == ExitCode::usage);
  CHECK(fs::exists(folder / "out/dataset.h5"));  // a failed attempt leaves the old dataset alone
}

TEST_CASE("a file that is named twice is taken once, and that is said") {
  const test::ScratchFolder folder;
  fs::create_directories(folder / "in");
  write_bytes(folder / "in/a", "a text\n");
  write_bytes(folder / "in/b", "another\n");
  std::string heard;
  auto options = options_for({folder / "in/a", folder / "in", folder / "in/../in/b"});
  options.val_fraction = 0;
  options.notice = [&](const std::string& text) { heard = text; };
  CHECK(pack_into(folder / "out", options).train.size() == 15);
  CHECK(heard.find("in/a and 1 more are named more than once") != std::string::npos);
  heard.clear();
  options.inputs = {folder / "in"};
  CHECK(pack_into(folder / "out", options).train.size() == 15);
  CHECK(heard.empty());
}

TEST_CASE("a folder with other files and no dataset is not written into, whatever was asked") {
  const test::ScratchFolder folder;
  write_bytes(folder / "text.txt", numbers(100));
  fs::create_directories(folder / "out");
  write_bytes(folder / "out/thesis.tex", "mine");
  auto options = options_for({folder / "text.txt"});
  options.out = folder / "out";
  options.overwrite = true;
  const Error refused = error_of([&] { pack(options); });
  CHECK(refused.code() == ExitCode::usage);
  CHECK(says(refused, "holds other files, not a dataset: choose another folder"));
  CHECK(std::distance(fs::directory_iterator(folder / "out"), {}) == 1);
  write_bytes(folder / "out/train-00000-of-00001.h5.partial", "left by a killed program");
  pack(options);
  CHECK(fs::exists(folder / "out/thesis.tex"));
  CHECK(!fs::exists(folder / "out/train-00000-of-00001.h5.partial"));
}

TEST_CASE("the locale and the order of files on the disk change nothing") {
  const test::ScratchFolder folder;
  fs::create_directories(folder / "in");
  for (const char* name : {"b", "A", "a", "\xC3\xA9", "Z"}) write_bytes(folder / "in/" + name, name);
  std::vector<std::string> repeated;
  const auto files = list_text_files({folder / "in"}, repeated);
  REQUIRE(files.size() == 5);
  for (size_t i = 0; i < 5; ++i)
    CHECK(files[i].ends_with(std::vector<std::string>{"A", "Z", "a", "b", "\xC3\xA9"}[i]));
  auto options = options_for({folder / "in"}, "chars");
  options.val_fraction = 0;
  const uint64_t first = pack_into(folder / "out", options).manifest.fingerprint();
  const std::string before = std::setlocale(LC_ALL, nullptr);
  std::setlocale(LC_ALL, "C.UTF-8");
  CHECK(pack_into(folder / "out", options).manifest.fingerprint() == first);
  std::setlocale(LC_ALL, before.c_str());
}
