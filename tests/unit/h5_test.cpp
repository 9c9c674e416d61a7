#include "h5/h5.hpp"

#include "base/error.hpp"
#include "support/errors.hpp"
#include "support/run_alone.hpp"
#include "support/scratch_folder.hpp"

#include <cmath>
#include <cstdlib>
#include <doctest/doctest.h>
#include <functional>
#include <limits>
#include <numeric>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

namespace gpt {
namespace {

using test::failure;
using test::says;
using test::ScratchFolder;

std::string damage(const std::function<void()>& work) { return test::failure(ExitCode::damaged, work); }

/// A file of which HDF5 objects are made by hand, as a foreign program might.
H5FileId foreign_file(const std::string& path) {
  return H5FileId(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
}

void foreign_dataset(const H5FileId& file, const char* name, std::vector<hsize_t> shape, hid_t type,
                     const H5PropertyId& properties) {
  const H5SpaceId space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
  const H5DatasetId dataset(
      H5Dcreate2(file.get(), name, type, space.get(), H5P_DEFAULT, properties.get(), H5P_DEFAULT));
  REQUIRE(dataset);
}

H5PropertyId dataset_properties() { return H5PropertyId(H5Pcreate(H5P_DATASET_CREATE)); }

TEST_CASE("every element type comes back, through conversion and at the offset that the file tells") {
  const ScratchFolder folder;
  const std::vector<uint64_t> values = {0, 1, 127, 200, 255};
  for (const H5Element element :
       {H5Element::u8, H5Element::u16, H5Element::u32, H5Element::u64, H5Element::f32}) {
    const std::string path = folder / "types.h5";
    {
      H5File file = H5File::create(path);
      file.create_dataset("values", element, 5).write({0, 5}, H5Element::u64, values.data());
      file.close();
    }
    const H5File file = H5File::open(path);
    const H5Dataset dataset = file.open_dataset("values");
    CHECK(dataset.size() == 5);
    CHECK(dataset.element() == element);
    CHECK(dataset.where() == path + ":values");
    std::vector<uint32_t> back(3);
    dataset.read({2, 5}, H5Element::u32, back.data());
    CHECK(back == std::vector<uint32_t>{127, 200, 255});

    const std::string bytes = test::bytes_of(path);
    std::string stored(static_cast<size_t>(size_of(element)), '\0');
    dataset.read({3, 4}, element, stored.data());
    CHECK(bytes.substr(static_cast<size_t>(dataset.file_offset() + 3 * size_of(element)), stored.size()) ==
          stored);
  }
}

TEST_CASE("ranges beyond a dataset are refused, empty ones are nothing") {
  const ScratchFolder folder;
  H5File file = H5File::create(folder / "range.h5");
  H5Dataset dataset = file.create_dataset("values", H5Element::u8, 4);
  uint8_t byte = 7;
  says(failure(ExitCode::failed,
               [&] {
                 dataset.write({3, 5}, H5Element::u8, &byte);
               }),
       "3 to 5 asked for, it has 4");
  CHECK(says(damage([&] { dataset.read({-1, 0}, H5Element::u8, &byte); }), "-1 to 0"));
  CHECK(says(damage([&] { dataset.read({3, 2}, H5Element::u8, &byte); }), "3 to 2"));
  CHECK_NOTHROW(dataset.read({4, 4}, H5Element::u8, nullptr));
}

TEST_CASE("a transfer larger than one piece keeps its order") {
  const ScratchFolder folder;
  const int64_t size = (int64_t{64} << 20) / 4 + 12345;
  std::vector<uint32_t> values(static_cast<size_t>(size)), back(values.size());
  std::iota(values.begin(), values.end(), 17U);
  H5File file = H5File::create(folder / "large.h5");
  H5Dataset dataset = file.create_dataset("values", H5Element::u32, size);
  dataset.write({0, size}, H5Element::u32, values.data());
  dataset.read({0, size}, H5Element::u32, back.data());
  CHECK(values == back);
  CHECK(dataset.file_offset() % (int64_t{4} << 20) == 0);
}

TEST_CASE("attributes come back by type and refuse another one") {
  const ScratchFolder folder;
  const std::string path = folder / "attributes.h5";
  {
    H5File file = H5File::create(path);
    file.set_attribute("integer", std::numeric_limits<int64_t>::min());
    file.set_attribute("real", 0.1);
    file.set_attribute("text", std::string("first"));
    file.set_attribute("text", std::string("zwei ß"));
    file.set_attribute("empty", std::string());
  }
  const H5File file = H5File::open(path);
  CHECK(file.integer("integer") == std::numeric_limits<int64_t>::min());
  CHECK(file.find_integer("integer") == std::numeric_limits<int64_t>::min());
  CHECK_FALSE(file.find_integer("none").has_value());
  CHECK(file.real("real") == 0.1);
  CHECK(file.string("text") == "zwei ß");
  CHECK(file.string("empty").empty());
  CHECK(says(damage([&] { file.integer("none"); }), "attributes.h5@none: the attribute is missing"));
  CHECK(says(damage([&] { file.integer("text"); }), "not one integer"));
  CHECK(says(damage([&] { file.real("integer"); }), "not one real number"));
  CHECK(says(damage([&] { file.string("real"); }), "not one string"));
}

TEST_CASE("strings of variable length, as h5py writes them, are read") {
  const ScratchFolder folder;
  {
    const H5FileId file = foreign_file(folder / "vlen.h5");
    const H5TypeId type(H5Tcopy(H5T_C_S1));
    H5Tset_size(type.get(), H5T_VARIABLE);
    const H5SpaceId space(H5Screate(H5S_SCALAR));
    const H5AttributeId attribute(
        H5Acreate2(file.get(), "text", type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT));
    const char* text = "variable";
    H5Awrite(attribute.get(), type.get(), static_cast<const void*>(&text));
  }
  CHECK(H5File::open(folder / "vlen.h5").string("text") == "variable");
}

TEST_CASE("texts of any length come back, and not beyond the limit") {
  const ScratchFolder folder;
  const std::string path = folder / "texts.h5";
  const std::string text = std::string(100000, 'x') + '\0' + "end";
  {
    H5File file = H5File::create(path);
    file.make_group("texts");
    file.write_text("texts/long", text);
    file.write_text("texts/empty", "");
  }
  const H5File file = H5File::open(path);
  CHECK(file.contains("texts/long"));
  CHECK_FALSE(file.contains("texts/other"));
  CHECK_FALSE(file.contains("none/other"));
  CHECK(file.read_text("texts/long", 100004) == text);
  CHECK(file.read_text("texts/empty", 0).empty());
  CHECK(says(damage([&] { file.read_text("texts/long", 100003); }), "not a text of at most 100003 bytes"));
  CHECK(says(damage([&] { file.read_text("texts/other", 1); }), "texts.h5:texts/other: it is missing"));
}

std::vector<float> read_view(const std::string& path, const char* name, size_t count) {
  const H5FileId file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const H5DatasetId dataset(H5Dopen2(file.get(), name, H5P_DEFAULT));
  std::vector<float> values(count);
  CHECK(H5Dread(dataset.get(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
  return values;
}

TEST_CASE("views show a part under another shape, after a rename too, and NaN without their source") {
  const ScratchFolder folder;
  std::vector<float> values(20);
  std::iota(values.begin(), values.end(), 0.0F);
  {
    H5File file = H5File::create(folder / "views.h5");
    file.create_dataset("flat", H5Element::f32, 20).write({0, 20}, H5Element::f32, values.data());
    file.make_group("named");
    file.create_view("named/a.weight", {2, 3}, "flat", 20, 5);
  }
  std::filesystem::rename(folder / "views.h5", folder / "renamed.h5");
  CHECK(H5File::open(folder / "renamed.h5").shape_of("named/a.weight") == std::vector<int64_t>{2, 3});
  CHECK(read_view(folder / "renamed.h5", "named/a.weight", 6) == std::vector<float>{5, 6, 7, 8, 9, 10});
  CHECK(says(damage([&] { H5File::open(folder / "renamed.h5").open_dataset("named/a.weight"); }),
             "2 dimensions"));
  {
    const H5FileId file(H5Fopen((folder / "renamed.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    H5Ldelete(file.get(), "flat", H5P_DEFAULT);
  }
  for (const float value : read_view(folder / "renamed.h5", "named/a.weight", 6)) CHECK(std::isnan(value));
}

TEST_CASE("equal contents are equal bytes: no object carries a time") {
  const ScratchFolder folder;
  for (const char* name : {"one.h5", "two.h5"}) {
    H5File file = H5File::create(folder / name);
    file.make_group("group");
    const float value = 1;
    file.create_dataset("group/data", H5Element::f32, 1).write({0, 1}, H5Element::f32, &value);
    file.create_view("group/view", {1, 1}, "group/data", 1, 0);
    file.write_text("text", "text");
    file.set_attribute("name", std::string("value"));
  }
  CHECK(test::bytes_of(folder / "one.h5") == test::bytes_of(folder / "two.h5"));
  const H5FileId file(H5Fopen((folder / "one.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  for (const char* name : {"group", "group/data", "group/view", "text"}) {
    H5O_info_t info{};
    H5Oget_info_by_name(file.get(), name, &info, H5P_DEFAULT);
    CHECK(info.mtime == 0);
    CHECK(info.ctime == 0);
  }
}

TEST_CASE("a file that cannot be opened is named with the reason in plain words") {
  const ScratchFolder folder;
  CHECK(says(damage([&] { H5File::open(folder / "none.h5"); }), "none.h5: No such file or directory"));
  CHECK(says(damage([&] { H5File::open(folder.path()); }), "it is not a regular file"));
  test::write_bytes(folder / "empty.h5", "");
  CHECK(says(damage([&] { H5File::open(folder / "empty.h5"); }), "empty.h5: it is empty"));
  test::write_bytes(folder / "text.h5", std::string(5000, 'x'));
  CHECK(says(damage([&] { H5File::open(folder / "text.h5"); }), "text.h5: it is not an HDF5 file"));

  { H5File::create(folder / "cut.h5").create_dataset("data", H5Element::u8, 5000); }
  const size_t whole = test::bytes_of(folder / "cut.h5").size();
  std::filesystem::resize_file(folder / "cut.h5", 3000);
  const std::string message = damage([&] { H5File::open(folder / "cut.h5"); });
  CHECK(says(message, fmt::format("cut.h5: it is truncated: 3000 of {} bytes are there", whole)));
}

TEST_CASE("what the system refuses is no damage: neither when writing nor when opening") {
  const ScratchFolder folder;
  const std::string path = folder / "good.h5";
  { H5File::create(path).write_text("text", "text"); }
  says(failure(ExitCode::failed, [&] { H5File::create(folder / "none/new.h5"); }),
       "new.h5: No such file or directory");
  {
    H5File file = H5File::open(path);
    says(failure(ExitCode::failed, [&] { file.create_dataset("new", H5Element::u8, 4); }), "cannot create");
    CHECK_FALSE(failure(ExitCode::failed, [&] { file.set_attribute("new", int64_t{1}); }).empty());
    CHECK_FALSE(failure(ExitCode::failed, [&] { file.make_group("new"); }).empty());
    CHECK_FALSE(failure(ExitCode::failed, [&] { file.write_text("new", "x"); }).empty());
    H5Dataset text = file.open_dataset("text");
    says(failure(ExitCode::failed, [&] { text.write({0, 4}, H5Element::u8, "TEXT"); }), "cannot write");
  }
  struct rlimit before {};
  getrlimit(RLIMIT_NOFILE, &before);
  struct rlimit none = before;
  none.rlim_cur = 0;
  setrlimit(RLIMIT_NOFILE, &none);
  const std::string message = failure(ExitCode::failed, [&] { H5File::open(path); });
  setrlimit(RLIMIT_NOFILE, &before);
  says(message, "good.h5: Too many open files");
  CHECK_NOTHROW(H5File::open(path));
}

TEST_CASE("what is appended behind HDF5's end is ignored") {
  const ScratchFolder folder;
  { H5File::create(folder / "tail.h5").write_text("text", "text"); }
  const std::string bytes = test::bytes_of(folder / "tail.h5");
  test::write_bytes(folder / "tail.h5", bytes + std::string(4096, 'z'));
  const H5File file = H5File::open(folder / "tail.h5");
  CHECK(file.read_text("text", 4) == "text");
  CHECK(file.size() == static_cast<int64_t>(bytes.size()));
}

TEST_CASE("a file under another program's lock opens") {
  const ScratchFolder folder;
  { H5File::create(folder / "locked.h5").write_text("text", "text"); }
  FILE* holder = std::fopen((folder / "locked.h5").c_str(), "r+");
  REQUIRE(flock(fileno(holder), LOCK_EX | LOCK_NB) == 0);
  CHECK(H5File::open(folder / "locked.h5").read_text("text", 4) == "text");
  // Only where the user insists on locks does the lock count, and then the message names the variable.
  CHECK(test::run_alone("child: a lock that counts is named",
                        "HDF5_USE_FILE_LOCKING=TRUE GPT_TEST_FILE='" + (folder / "locked.h5") + "'"));
  std::fclose(holder);
}

TEST_CASE("child: a lock that counts is named" * doctest::skip()) {
  const std::string path = std::getenv("GPT_TEST_FILE");
  const std::string message = failure(ExitCode::failed, [&] { H5File::open(path); });
  CHECK(says(message, "cannot open " + path + ": it cannot be locked (Resource temporarily unavailable)"));
  CHECK(says(message, "HDF5_USE_FILE_LOCKING=FALSE"));
}

TEST_CASE("datasets of foreign files are refused when they are not plain arrays of this file") {
  const ScratchFolder folder;
  const std::string path = folder / "hostile.h5";
  test::write_bytes(folder / "secret", std::string(64, 's'));
  { H5File::create(folder / "other.h5").create_dataset("data", H5Element::u8, 4); }
  {
    const H5FileId file = foreign_file(path);
    const H5PropertyId plain = dataset_properties();
    foreign_dataset(file, "huge", {hsize_t{1} << 50}, H5T_STD_U8LE, plain);
    foreign_dataset(file, "signed", {4}, H5T_STD_I32LE, plain);
    foreign_dataset(file, "big-endian", {4}, H5T_STD_U32BE, plain);
    foreign_dataset(file, "double", {4}, H5T_IEEE_F64LE, plain);
    foreign_dataset(file, "scalar", {}, H5T_STD_U8LE, plain);
    foreign_dataset(file, "late", {4}, H5T_STD_U8LE, plain);
    const H5PropertyId outside = dataset_properties();
    H5Pset_external(outside.get(), (folder / "secret").c_str(), 0, 64);
    foreign_dataset(file, "outside", {64}, H5T_STD_U8LE, outside);
    const H5PropertyId chunked = dataset_properties();
    const hsize_t chunk = 4;
    H5Pset_chunk(chunked.get(), 1, &chunk);
    foreign_dataset(file, "chunked", {4}, H5T_STD_U8LE, chunked);
    const H5GroupId group(H5Gcreate2(file.get(), "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Lcreate_external((folder / "other.h5").c_str(), "/", file.get(), "away", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/late", file.get(), "soft", H5P_DEFAULT, H5P_DEFAULT);
  }
  const H5File file = H5File::open(path);
  const auto refused = [&](const std::string& name, const std::string& reason) {
    CAPTURE(name);
    const std::string message = damage([&] { file.open_dataset(name); });
    CAPTURE(message);
    CHECK(says(message, path));
    CHECK(says(message, reason));
  };
  refused("huge", "holds 1125899906842624 elements of 1 bytes, but the file has");
  refused("signed", "unsigned integers");
  refused("big-endian", "little-endian");
  refused("double", "32-bit floats");
  refused("scalar", "0 dimensions");
  refused("outside", "another file");
  refused("chunked", "not a contiguous dataset");
  refused("group", "hostile.h5:group");
  refused("away/data", "hostile.h5:away: it is a link");
  refused("soft", "it is a link");
  CHECK(says(damage([&] { file.open_dataset("late").file_offset(); }), "no storage"));
  CHECK(says(damage([&] { file.shape_of("away/data"); }), "it is a link"));
}

TEST_CASE("HDF5's versions are those of header and library") {
  CHECK(hdf5_compiled_version() == fmt::format("{}.{}.{}", H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE));
  CHECK(hdf5_loaded_version().starts_with("1."));
}

}  // namespace
}  // namespace gpt
