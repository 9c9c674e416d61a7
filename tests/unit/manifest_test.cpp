#include "data/manifest.hpp"

#include "data/dataset.hpp"
#include "data/shard_format.hpp"
#include "support/scratch_folder.hpp"
#include "unit/small_dataset.hpp"

#include <doctest/doctest.h>
#include <filesystem>

using namespace gpt;
using gpt::test::error_of;
using gpt::test::says;

namespace {

Manifest example() {
  Manifest manifest;
  manifest.tokenizer = make_id_tokenizer(300)->serialize();
  manifest.vocabulary = 300;
  manifest.token_bytes = 2;
  manifest.seed = 0xFFFFFFFFFFFFFFFF;
  manifest.source = "a \xC3\xA9 text";
  manifest.entropy = 0.25;
  manifest.train = {{"train-00000-of-00002.h5", 10, 2, 0xFEDCBA9876543210},
                    {"train-00001-of-00002.h5", 9, 1, 7}};
  manifest.val = {{"val-00000-of-00001.h5", 4, 1, 8}};
  return manifest;
}

}  // namespace

TEST_CASE("a manifest comes back as it was written") {
  const test::ScratchFolder folder;
  const Manifest written = example();
  written.write(folder.path());
  const Manifest read = Manifest::read(folder.path());
  CHECK(read.tokenizer == written.tokenizer);
  CHECK(read.vocabulary == 300);
  CHECK(read.token_bytes == 2);
  CHECK(read.seed == written.seed);
  CHECK(read.source == written.source);
  CHECK(read.entropy == written.entropy);
  REQUIRE(read.train.size() == 2);
  CHECK(read.train[0].file == "train-00000-of-00002.h5");
  CHECK(read.train[0].tokens == 10);
  CHECK(read.train[0].documents == 2);
  CHECK(read.train[0].checksum == 0xFEDCBA9876543210);
  CHECK(read.val.size() == 1);
  CHECK(read.fingerprint() == written.fingerprint());
  CHECK(!std::filesystem::exists(folder / "dataset.h5.partial"));

  Manifest plain = example();
  plain.entropy.reset();
  plain.val.clear();
  plain.write(folder.path());
  CHECK(!Manifest::read(folder.path()).entropy);
  CHECK(Manifest::read(folder.path()).val.empty());
}

TEST_CASE("the fingerprint follows tokens, order, cut and tokenizer, nothing else") {
  const uint64_t first = example().fingerprint();
  Manifest same = example();
  same.source = "other";
  same.seed = 3;
  same.entropy.reset();
  CHECK(same.fingerprint() == first);
  Manifest changed = example();
  changed.train[0].checksum ^= 1;
  CHECK(changed.fingerprint() != first);
  changed = example();
  std::swap(changed.train[0], changed.train[1]);
  CHECK(changed.fingerprint() != first);
  changed = example();
  changed.tokenizer = make_id_tokenizer(301)->serialize();
  CHECK(changed.fingerprint() != first);
  changed = example();
  changed.val.clear();
  CHECK(changed.fingerprint() != first);
}

TEST_CASE("a missing folder, a file, an unfinished and a foreign dataset are told apart") {
  const test::ScratchFolder folder;
  const Error absent = error_of([&] { Manifest::read(folder / "none"); });
  CHECK(absent.code() == ExitCode::usage);
  CHECK(says(absent, "gpt_data pack"));
  test::write_bytes(folder / "text.txt", "hello");
  CHECK(error_of([&] { Manifest::read(folder / "text.txt"); }).code() == ExitCode::usage);
  CHECK(error_of([&] { Manifest::read(folder.path()); }).code() == ExitCode::usage);
  for (const char* content : {"", "not HDF5 at all"}) {
    test::write_bytes(folder / "dataset.h5", content);
    const Error foreign = error_of([&] { Manifest::read(folder.path()); });
    CHECK(foreign.code() == ExitCode::damaged);
    CHECK(says(foreign, "dataset.h5"));
  }
  H5File::create(folder / "dataset.h5").set_attribute("kind", std::string("other"));
  CHECK(error_of([&] { Manifest::read(folder.path()); }).code() == ExitCode::damaged);
}

TEST_CASE("a manifest whose numbers cannot be is refused") {
  const test::ScratchFolder folder;
  const auto refused = [&](const auto& change) {
    Manifest manifest = example();
    change(manifest);
    manifest.write(folder.path());
    return error_of([&] { Manifest::read(folder.path()); }).code() == ExitCode::damaged;
  };
  CHECK(refused([](Manifest& m) { m.vocabulary = 0; }));
  CHECK(refused([](Manifest& m) { m.vocabulary = int64_t{1} << 40; }));
  CHECK(refused([](Manifest& m) { m.token_bytes = 1; }));
  CHECK(refused([](Manifest& m) { m.train.clear(); }));
  CHECK(refused([](Manifest& m) { m.train[0].tokens = 0; }));
  CHECK(refused([](Manifest& m) { m.train[0].tokens = int64_t{1} << 60; }));
  CHECK(refused([](Manifest& m) { m.train[0].documents = 11; }));
  CHECK(refused([](Manifest& m) { m.val[0].documents = 0; }));
  CHECK(refused([](Manifest& m) { m.entropy = -1.0; }));

  example().write(folder.path());
  H5File changed = H5File::create(folder / "dataset.h5");
  changed.set_attribute("kind", std::string(manifest_kind));
  changed.set_attribute("format", int64_t{99});
  changed.close();
  CHECK(says(error_of([&] { Manifest::read(folder.path()); }), "format 99"));

  Manifest wrong = example();
  wrong.vocabulary = 301;
  wrong.write(folder.path());
  CHECK(says(error_of([&] { Dataset(folder.path()); }), "its tokenizer has 300"));
}

TEST_CASE("the width of a token follows the vocabulary") {
  CHECK(token_bytes_for(1) == 1);
  CHECK(token_bytes_for(256) == 1);
  CHECK(token_bytes_for(257) == 2);
  CHECK(token_bytes_for(65536) == 2);
  CHECK(token_bytes_for(65537) == 4);
}
