#include "data/file_io.hpp"

#include "data/pack.hpp"
#include "support/scratch_folder.hpp"
#include "unit/small_dataset.hpp"

#include <doctest/doctest.h>

namespace gpt {
TEST_CASE("files that have contents but no size are read to their end") {
  const std::string version = test::bytes_of("/proc/version");
  REQUIRE(!version.empty());
  CHECK(read_small_file("/proc/version", 1 << 20) == version);
  CHECK(test::says(test::error_of([&] { read_small_file("/proc/version", 10); }), "at most 10 are expected"));

  const test::ScratchFolder folder;
  PackOptions options;
  options.inputs = {"/proc/version"};
  options.out = folder / "out";
  options.shards = 1;
  options.val_fraction = 0;
  pack(options);
  CHECK(test::text_of(options.out, Split::train) == version);
}

TEST_CASE("an empty file has nothing to read, and a folder is no file") {
  const test::ScratchFolder folder;
  test::write_bytes(folder / "empty", "");
  CHECK(read_small_file(folder / "empty", 10).empty());
  CHECK(test::says(test::error_of([&] { read_small_file(folder.path(), 10); }), "not a regular file"));
}

}  // namespace gpt
