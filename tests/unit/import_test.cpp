#include "data/import_tokens.hpp"
#include "data/pickle.hpp"
#include "support/scratch_folder.hpp"
#include "unit/small_dataset.hpp"

#include <cstring>
#include <doctest/doctest.h>
#include <filesystem>

using namespace gpt;
using gpt::test::error_of;
using gpt::test::says;
using gpt::test::write_bytes;

namespace {

std::string stored(const std::vector<uint16_t>& tokens) {
  std::string bytes(tokens.size() * 2, '\0');
  std::memcpy(bytes.data(), tokens.data(), bytes.size());
  return bytes;
}

std::string header(int32_t magic, int32_t version, int32_t tokens) {
  std::vector<int32_t> words(256);
  words[0] = magic;
  words[1] = version;
  words[2] = tokens;
  std::string bytes(1024, '\0');
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

ImportOptions options_for(const std::vector<std::string>& inputs, const std::string& out) {
  ImportOptions options;
  options.inputs = inputs;
  options.out = out;
  options.shards = 1;
  options.val_fraction = 0;
  options.overwrite = true;
  return options;
}

/// pickle.dumps({'vocab_size': 3, 'itos': {0: 'b', 1: 'é', 2: 'a'}, 'stoi': …}, protocol=4), as Python 3.11
/// wrote it.
const std::string meta_bytes(
    "\x80\x04\x95\x49\x00\x00\x00\x00\x00\x00\x00\x7d\x94\x28\x8c\x0a\x76\x6f\x63\x61\x62\x5f\x73\x69\x7a\x65"
    "\x94"
    "\x4b\x03\x8c\x04\x69\x74\x6f\x73\x94\x7d\x94\x28\x4b\x00\x8c\x01\x62\x94\x4b\x01\x8c\x02\xc3\xa9\x94\x4b"
    "\x02"
    "\x8c\x01\x61\x94\x75\x8c\x04\x73\x74\x6f\x69\x94\x7d\x94\x28\x68\x04\x4b\x00\x68\x05\x4b\x01\x68\x06\x4b"
    "\x02"
    "\x75\x75\x2e",
    84);

}  // namespace

TEST_CASE("token files of llm.c are imported in order, with bare ids") {
  const test::ScratchFolder folder;
  write_bytes(folder / "a.bin", header(20240520, 1, 3) + stored({50256, 5, 0}));
  write_bytes(folder / "b.bin", header(20240520, 1, 2) + stored({7, 8}));
  const Manifest manifest = import_tokens(options_for({folder / "a.bin", folder / "b.bin"}, folder / "out"));
  CHECK(test::tokens_of(folder / "out", Split::train) == std::vector<Token>{50256, 5, 0, 7, 8});
  CHECK(manifest.vocabulary == 50257);
  CHECK(manifest.token_bytes == 2);
  CHECK(manifest.train.front().documents == 2);
  CHECK(load_tokenizer(manifest.tokenizer)->kind() == "ids");
}

TEST_CASE("files that are no token files of llm.c are refused with what is wrong") {
  const test::ScratchFolder folder;
  const auto refusal = [&](const std::string& bytes) {
    write_bytes(folder / "x.bin", bytes);
    auto options = options_for({folder / "x.bin"}, folder / "out");
    options.format = TokenFormat::llmc;
    const Error error = error_of([&] { import_tokens(options); });
    CHECK(error.code() == ExitCode::usage);
    CHECK(says(error, "x.bin"));
    return error;
  };
  CHECK(says(refusal(""), "0 bytes"));
  CHECK(says(refusal(std::string(1023, '\0')), "1023 bytes"));
  CHECK(says(refusal(header(20240519, 1, 1) + stored({1})), "20240519"));
  CHECK(says(refusal(header(20240520, 2, 1) + stored({1})), "version 2"));
  CHECK(says(refusal(header(20240520, 1, 3) + stored({1, 2})), "promises 3 tokens and has room for 2"));
  CHECK(says(refusal(header(20240520, 1, 1) + stored({1, 2})), "promises 1 tokens"));
  CHECK(says(refusal(header(20240520, 1, -1) + stored({1})), "promises -1"));
  CHECK(says(refusal(header(20240520, 1, 0)), "promises 0"));
  CHECK(says(refusal(header(20240520, 1, 1) + "abc"), "16-bit"));
}

TEST_CASE("a token outside the vocabulary is reported with file, offset and value") {
  const test::ScratchFolder folder;
  write_bytes(folder / "x.bin", stored({1, 2, 100, 3}));
  auto options = options_for({folder / "x.bin"}, folder / "out");
  options.vocabulary = 100;
  const Error error = error_of([&] { import_tokens(options); });
  CHECK(error.code() == ExitCode::damaged);
  CHECK(says(error, "x.bin: token 100 at offset 2"));
  CHECK(!std::filesystem::exists(folder / "out/dataset.h5"));
  options.vocabulary = 101;
  CHECK(import_tokens(options).vocabulary == 101);
  options.vocabulary = 70'000;
  CHECK(error_of([&] { import_tokens(options); }).code() == ExitCode::usage);
  options.vocabulary = -1;
  CHECK(error_of([&] { import_tokens(options); }).code() == ExitCode::usage);
}

TEST_CASE("a folder of nanoGPT gives training, validation and the characters of meta.pkl") {
  const test::ScratchFolder folder;
  std::filesystem::create_directories(folder / "in");
  write_bytes(folder / "in/train.bin", stored({0, 1, 2, 0}));
  write_bytes(folder / "in/val.bin", stored({2, 2, 1}));
  write_bytes(folder / "in/meta.pkl", meta_bytes);
  import_tokens(options_for({folder / "in"}, folder / "out"));
  CHECK(test::text_of(folder / "out", Split::train) ==
        "b\xC3\xA9"
        "ab");
  CHECK(test::text_of(folder / "out", Split::val) == "aa\xC3\xA9");
  CHECK(test::tokens_of(folder / "out", Split::train) ==
        std::vector<Token>{1, 2, 0, 1});  // in code-point order

  write_bytes(folder / "alphabet.txt", "xyz");
  auto options = options_for({folder / "in"}, folder / "out");
  options.alphabet = folder / "alphabet.txt";
  import_tokens(options);
  CHECK(test::text_of(folder / "out", Split::train) == "xyzx");
  options.vocabulary = 3;
  CHECK(says(error_of([&] { import_tokens(options); }), "exclude each other"));
  options.vocabulary = 0;
  write_bytes(folder / "alphabet.txt", "xyx");
  CHECK(says(error_of([&] { import_tokens(options); }), "two ids"));
}

TEST_CASE("without validation files the tail of the tokens validates") {
  const test::ScratchFolder folder;
  write_bytes(folder / "x.bin", stored({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  auto options = options_for({folder / "x.bin"}, folder / "out");
  options.val_fraction = 0.2;
  import_tokens(options);
  CHECK(test::tokens_of(folder / "out", Split::val) == std::vector<Token>{9, 10});
  write_bytes(folder / "odd.bin", "abc");
  options.inputs = {folder / "odd.bin"};
  CHECK(says(error_of([&] { import_tokens(options); }), "16-bit"));
  write_bytes(folder / "odd.bin", "");
  CHECK(says(error_of([&] { import_tokens(options); }), "no tokens"));
}

TEST_CASE("pickles are read as far as they hold plain values") {
  const PickledMeta meta = read_pickled_meta(meta_bytes, "meta.pkl");
  CHECK(meta.vocabulary == 3);
  CHECK(meta.texts == std::map<int64_t, std::string>{{0, "b"}, {1, "\xC3\xA9"}, {2, "a"}});
  // protocol 2: {'vocab_size': 300}
  const std::string old("\x80\x02}q\x00X\x0a\x00\x00\x00vocab_sizeq\x01M\x2c\x01s.", 27);
  CHECK(read_pickled_meta(old, "meta.pkl").vocabulary == 300);
}

TEST_CASE("pickles that call something, end early or lie are refused") {
  const auto refusal = [](const std::string& bytes) {
    const Error error = error_of([&] { read_pickled_meta(bytes, "meta.pkl"); });
    CHECK(error.code() == ExitCode::usage);
    return error;
  };
  CHECK(says(refusal("cos\nsystem\n(S'true'\ntR."), "instruction 0x63"));
  CHECK(says(refusal("\x80\x04\x8c\x02os\x8c\x06system\x93."), "instruction 0x93"));
  CHECK(says(refusal("}."), "vocab_size"));
  for (size_t cut = 0; cut < meta_bytes.size(); ++cut) refusal(meta_bytes.substr(0, cut));
  for (const std::string& bytes :
       {std::string("."), std::string("K\x01."), std::string("(."), std::string("u."),
        std::string("}K\x01u."), std::string("}(K\x01u."), std::string("h\x05."), std::string("s."),
        std::string("q\x01."), std::string("K\x01K\x01K\x01s."), std::string("X\xFF\xFF\xFF\xFFx."),
        std::string("\x80\x09}.")}) {
    refusal(bytes);
  }
  std::string changed = meta_bytes;
  for (size_t at = 0; at < changed.size(); ++at) {  // any single damage ends in an answer or an Error
    for (const char value : {'\0', '\xFF', '(', 'u', 'h', '}'}) {
      changed[at] = value;
      error_of([&] { read_pickled_meta(changed, "meta.pkl"); });
    }
    changed[at] = meta_bytes[at];
  }
}
