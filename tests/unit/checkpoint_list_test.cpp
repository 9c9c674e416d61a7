#include "base/error.hpp"
#include "base/hash.hpp"
#include "comm/world.hpp"
#include "h5/h5.hpp"
#include "support/errors.hpp"
#include "support/run_alone.hpp"
#include "support/scratch_folder.hpp"
#include "train/checkpoint.hpp"
#include "train/commit_record.hpp"

#include <algorithm>
#include <cstring>
#include <doctest/doctest.h>
#include <functional>
#include <sys/stat.h>
#include <unistd.h>

namespace gpt {
namespace {

namespace fs = std::filesystem;
using test::bytes_of;
using test::says;
using test::ScratchFolder;
using test::write_bytes;

constexpr GptConfig tiny{.layers = 1, .heads = 1, .width = 8, .context = 4, .vocabulary = 5};

World make_world() {
  int argc = 0;
  char** argv = nullptr;
  return {argc, argv};
}

std::string damage(const std::function<void()>& work) { return test::failure(ExitCode::damaged, work); }

CheckpointHeader header_of(int64_t step, int64_t branch, uint64_t run_id) {
  return {.step = step,
          .cursor = step,
          .skipped = {},
          .run_id = run_id,
          .branch = branch,
          .parent_step = -1,
          .model = tiny,
          .configuration = "steps = 1\n",
          .tokenizer = "bytes",
          .dataset_fingerprint = 1,
          .dataset_source = "source",
          .spikes = {},
          .comm_choice = "{\"a choice\": 1}"};
}

std::string save(const std::string& folder, const CheckpointHeader& header) {
  const Layout layout(header.model);
  std::vector<float> values(static_cast<size_t>(layout.size()), 0.5F);
  save_checkpoint(folder, header, layout, {{"params", Tensor(values.data(), DType::f32, {layout.size()})}},
                  make_world());
  return folder + "/" + checkpoint_name(header.step);
}

/// Loads everything from the file.
void load(const std::string& file) {
  const CheckpointHeader header = read_checkpoint_header(file);
  const Layout layout(header.model);
  std::vector<float> values(static_cast<size_t>(layout.size()));
  load_state(file, layout, {{"params", Tensor(values.data(), DType::f32, {layout.size()})}});
}

std::vector<std::string> names(const CheckpointList& list) {
  std::vector<std::string> result;
  for (const CheckpointFile& file : list.valid) result.push_back(fs::path(file.path).filename().string());
  return result;
}

TEST_CASE("names sort by step") {
  CHECK(checkpoint_name(20) == "step-00000020.h5");
  CHECK(checkpoint_name(123456789) == "step-123456789.h5");
}

TEST_CASE("a folder that is missing or empty holds no checkpoints, one that cannot be read is an error") {
  const ScratchFolder folder;
  for (const std::string& path : {folder.path(), folder / "none", folder / "none/none"}) {
    CHECK(list_checkpoints(path).valid.empty());
    CHECK(list_checkpoints(path).passed_over.empty());
    CHECK_NOTHROW(retire_checkpoints(path, 1, 0, {.newest = 1}));
  }
  write_bytes(folder / "file", "");
  CHECK_THROWS_AS(list_checkpoints(folder / "file"), Error);
}

TEST_CASE("valid files come newest first: by branch, then by step") {
  const ScratchFolder folder;
  for (const auto& [step, branch] : {std::pair<int64_t, int64_t>{10, 0}, {30, 0}, {20, 1}, {15, 1}})
    save(folder.path(), header_of(step, branch, 7));
  const CheckpointList list = list_checkpoints(folder.path());
  CHECK(names(list) == std::vector<std::string>{"step-00000020.h5", "step-00000015.h5", "step-00000030.h5",
                                                "step-00000010.h5"});
  CHECK(list.passed_over.empty());
  CHECK(list.valid.front().step == 20);
  CHECK(list.valid.front().branch == 1);
  CHECK(list.valid.front().run_id == 7);
}

TEST_CASE("everything else is passed over with a sentence and stays") {
  const ScratchFolder folder;
  const std::string good = save(folder.path(), header_of(1, 0, 7));
  const std::string whole = bytes_of(good);
  write_bytes(folder / "step-00000002.h5", "");
  write_bytes(folder / "step-00000003.h5", whole.substr(0, whole.size() - 1));
  write_bytes(folder / "step-00000004.h5", "not a checkpoint " + std::string(5000, 'x'));
  std::string record = whole;
  record[record.size() - 100] ^= 4;
  write_bytes(folder / "step-00000005.h5", record);
  write_bytes(folder / "step-00000006.h5", whole + "x");
  fs::create_directory(folder / "step-00000007.h5");
  REQUIRE(mkfifo((folder / "step-00000008.h5").c_str(), 0600) == 0);
  fs::create_symlink("none", folder / "step-00000009.h5");
  { H5File::create(folder / "other.h5").write_text("text", std::string(9000, 't')); }
  write_bytes(folder / "step-00000010.h5.partial", whole);
  for (const char* ignored : {"notes.txt", "step-00000001.h5.set-aside-1", ".hidden"})
    write_bytes(folder / ignored, "");

  const CheckpointList list = list_checkpoints(folder.path());
  CHECK(names(list) == std::vector<std::string>{"step-00000001.h5"});
  REQUIRE(list.passed_over.size() == 10);
  const char* reasons[] = {"no commit record", "it has 0 bytes",   "no commit record",   "no commit record",
                           "is damaged",       "no commit record", "not a regular file", "not a regular file",
                           "No such file",     "was not finished"};
  for (size_t i = 0; i < 10; ++i) {
    says(list.passed_over[i], folder.path());
    says(list.passed_over[i], reasons[i]);
  }
  retire_checkpoints(folder.path(), 7, 0, {.newest = 1});
  CHECK(list_checkpoints(folder.path()).passed_over == list.passed_over);
  CHECK(names(list_checkpoints(folder.path())) == names(list));
}

TEST_CASE("retiring keeps the newest of this branch and touches no other branch or run") {
  const ScratchFolder folder;
  for (const int64_t step : {1, 2, 3, 4}) save(folder.path(), header_of(step, 0, 7));
  save(folder.path(), header_of(2, 1, 7));  // step 2 of branch 0 is set aside
  save(folder.path(), header_of(9, 5, 8));
  retire_checkpoints(folder.path(), 7, 0, {.newest = 2});
  CHECK(names(list_checkpoints(folder.path())) ==
        std::vector<std::string>{"step-00000009.h5", "step-00000002.h5", "step-00000004.h5",
                                 "step-00000003.h5"});
  retire_checkpoints(folder.path(), 7, 1, {.newest = 1});
  retire_checkpoints(folder.path(), 7, 0, {.newest = 1});
  CHECK(names(list_checkpoints(folder.path())) ==
        std::vector<std::string>{"step-00000009.h5", "step-00000002.h5", "step-00000004.h5"});
  CHECK(fs::exists(folder / "step-00000002.h5.set-aside-1"));
}

TEST_CASE("retiring keeps the steps of the longer interval, too") {
  const ScratchFolder folder;
  for (const int64_t step : {2, 4, 5, 6, 8, 10, 11, 12}) save(folder.path(), header_of(step, 0, 7));
  save(folder.path(), header_of(3, 1, 7));
  retire_checkpoints(folder.path(), 7, 0, {.newest = 2, .every = 5});
  CHECK(names(list_checkpoints(folder.path())) ==
        std::vector<std::string>{"step-00000003.h5", "step-00000012.h5", "step-00000011.h5",
                                 "step-00000010.h5", "step-00000005.h5"});
  retire_checkpoints(folder.path(), 7, 0, {.newest = 1, .every = 4});
  CHECK(names(list_checkpoints(folder.path())) ==
        std::vector<std::string>{"step-00000003.h5", "step-00000012.h5"});
}

TEST_CASE("a process killed while it saves leaves the older checkpoint and a partial file") {
  for (const char* point : {"save.write", "save.commit", "save.rename"}) {
    CAPTURE(point);
    const ScratchFolder folder;
    save(folder.path(), header_of(1, 0, 7));
    CHECK_FALSE(test::run_alone("child: saves step 2", "GPT_TEST_FOLDER='" + folder.path() + "' GPT_FAULT='" +
                                                           std::string(point) + ":kill'"));
    const CheckpointList list = list_checkpoints(folder.path());
    CHECK(names(list) == std::vector<std::string>{"step-00000001.h5"});
    REQUIRE(list.passed_over.size() == 1);
    says(list.passed_over.front(), "step-00000002.h5.partial: a save that was not finished");
    load(list.valid.front().path);
  }
}

TEST_CASE("a process killed before it replaces a checkpoint leaves the old one under its name") {
  const ScratchFolder folder;
  const std::string file = save(folder.path(), header_of(2, 5, 8));
  const std::string old = bytes_of(file);
  for (const char* action : {"kill", "throw"}) {
    CAPTURE(action);
    CHECK_FALSE(test::run_alone("child: saves step 2", "GPT_TEST_FOLDER='" + folder.path() +
                                                           "' GPT_FAULT='save.rename:" + action + "'"));
    CHECK(names(list_checkpoints(folder.path())) == std::vector<std::string>{"step-00000002.h5"});
    CHECK(bytes_of(file) == old);
    CHECK(fs::exists(file + ".partial") == (action == std::string("kill")));
  }
  // The killed one had given the second name already; the one that threw took its own back.
  CHECK(bytes_of(file + ".set-aside-1") == old);
  CHECK_FALSE(fs::exists(file + ".set-aside-2"));
  save(folder.path(), header_of(2, 6, 8));
  CHECK(list_checkpoints(folder.path()).valid.front().branch == 6);
  CHECK(bytes_of(file + ".set-aside-2") == old);
}

TEST_CASE("the newest checkpoint is one whose metadata are whole; a damaged one is passed over") {
  const ScratchFolder folder;
  for (const int64_t step : {1, 2, 3}) save(folder.path(), header_of(step, 0, 7));
  for (const char* name : {"step-00000003.h5", "step-00000002.h5"}) {
    std::string bytes = bytes_of(folder / name);
    bytes[bytes.find("steps = 1")] ^= 1;
    write_bytes(folder / name, bytes);
    CHECK_FALSE(checkpoint_fault(folder / name).has_value());
  }
  const CheckpointList list = list_checkpoints(folder.path());
  CHECK(names(list) == std::vector<std::string>{"step-00000001.h5"});
  CHECK(list.broken);
  REQUIRE(list.passed_over.size() == 2);
  says(list.passed_over[0], "step-00000003.h5: bytes outside the state changed since it was committed");
  says(list.passed_over[1], "step-00000002.h5: bytes outside");
  load(list.valid.front().path);
}

TEST_CASE("child: saves step 2" * doctest::skip()) {
  save(std::getenv("GPT_TEST_FOLDER"), header_of(2, 0, 7));
}

TEST_CASE("a file cut anywhere is no checkpoint") {
  const ScratchFolder folder;
  const std::string whole = bytes_of(save(folder.path(), header_of(1, 0, 7)));
  const std::string cut = folder / "cut.h5";
  for (size_t length = 0; length < whole.size(); length += 509) {
    write_bytes(cut, whole.substr(0, length));
    if (!checkpoint_fault(cut).has_value()) FAIL("cut to " << length << " bytes it still passes");
    says(damage([&] { read_checkpoint_header(cut); }), "checkpoint " + cut + ": it has");
  }
}

TEST_CASE("a flipped bit in any byte of the file is found by loading it") {
  const ScratchFolder folder;
  const std::string file = save(folder.path(), header_of(1, 0, 7));
  const std::string whole = bytes_of(file);
  load(file);
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  const auto put = [&](size_t at, char byte) {
    bytes.seekp(static_cast<std::streamoff>(at));
    bytes.put(byte).flush();
  };
  for (size_t at = 0; at < whole.size(); at += 7) {
    put(at, static_cast<char>(whole[at] ^ (1 << (at % 8))));
    if (damage([&] { load(file); }).empty()) FAIL("byte " << at << " was not found");
    put(at, whole[at]);
  }
  load(file);
}

/// Changes a committed file and commits it again: all checksums are right, so only the contents can be
/// refused.
class Forgery {
public:
  explicit Forgery(const std::string& file) : file_(file), record_(read_commit_record(file)) {
    fs::resize_file(file, static_cast<uintmax_t>(record_.file_size - CommitRecord::bytes));
    id_.reset(H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    REQUIRE(id_);
  }
  ~Forgery() {
    id_.reset();
    const auto end = static_cast<int64_t>(fs::file_size(file_));
    record_.file_size = end + CommitRecord::bytes;
    if (record_.extents.size() == 1 && record_.extents.front().end > end) record_.extents.clear();
    record_.digest = digest_of_rest(file_, end, record_.extents);
    const auto raw = encode_commit_record(record_);
    write_bytes(file_, bytes_of(file_) + std::string(reinterpret_cast<const char*>(raw.data()), raw.size()));
  }
  Forgery(const Forgery&) = delete;
  Forgery& operator=(const Forgery&) = delete;

  CommitRecord& record() { return record_; }

  void integer(const char* name, int64_t value) {
    const H5AttributeId attribute(H5Aopen(id_.get(), name, H5P_DEFAULT));
    REQUIRE(H5Awrite(attribute.get(), H5T_NATIVE_INT64, &value) >= 0);
  }
  void real(const char* name, double value) {
    const H5AttributeId attribute(H5Aopen(id_.get(), name, H5P_DEFAULT));
    REQUIRE(H5Awrite(attribute.get(), H5T_NATIVE_DOUBLE, &value) >= 0);
  }
  void text(const char* name, const std::string& value) {
    const H5AttributeId attribute(H5Aopen(id_.get(), name, H5P_DEFAULT));
    const H5TypeId type(H5Aget_type(attribute.get()));
    std::string padded = value;
    padded.resize(H5Tget_size(type.get()));
    REQUIRE(H5Awrite(attribute.get(), type.get(), padded.data()) >= 0);
  }
  void remove_attribute(const char* name) { REQUIRE(H5Adelete(id_.get(), name) >= 0); }
  void remove(const char* name) { REQUIRE(H5Ldelete(id_.get(), name, H5P_DEFAULT) >= 0); }
  void numbers(const char* name, const std::vector<uint64_t>& values) {
    if (H5Lexists(id_.get(), name, H5P_DEFAULT) > 0) remove(name);
    const hsize_t extent = values.size();
    const H5SpaceId space(H5Screate_simple(1, &extent, nullptr));
    const H5DatasetId dataset(
        H5Dcreate2(id_.get(), name, H5T_STD_U64LE, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    REQUIRE(H5Dwrite(dataset.get(), H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
  }
  void huge(const char* name, hid_t type) {
    remove(name);
    const hsize_t extent = hsize_t{1} << 58;
    const H5SpaceId space(H5Screate_simple(1, &extent, nullptr));
    const H5DatasetId dataset(
        H5Dcreate2(id_.get(), name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    REQUIRE(dataset);
  }

private:
  std::string file_;
  CommitRecord record_;
  H5FileId id_;
};

TEST_CASE("files of an enemy with right checksums are refused by what they say") {
  const ScratchFolder folder;
  const std::string original = bytes_of(save(folder.path(), header_of(1, 0, 7)));
  const std::string file = folder / "step-00000001.h5";
  const auto refused = [&](const std::string& reason, const std::function<void(Forgery&)>& forge) {
    CAPTURE(reason);
    write_bytes(file, original);
    {
      Forgery forgery(file);
      forge(forgery);
    }
    const std::string message = damage([&] { load(file); });
    says(message, file);
    says(message, reason);
  };
  write_bytes(file, original);
  { Forgery nothing(file); }
  CHECK_NOTHROW(load(file));

  refused("has format 2, this program reads 3", [](Forgery& f) { f.integer("format", 2); });
  refused("@step: -1 is less than 0", [](Forgery& f) { f.integer("step", -1); });
  refused("different checkpoints", [](Forgery& f) { f.integer("step", 2); });
  refused("different checkpoints", [](Forgery& f) { f.record().branch = 9; });
  refused("@cursor", [](Forgery& f) { f.integer("cursor", INT64_MIN); });
  refused("@cursor: the attribute is missing", [](Forgery& f) { f.remove_attribute("cursor"); });
  refused("@run_id: 'xyz' is not 16", [](Forgery& f) { f.text("run_id", "xyz"); });
  refused("is not 16", [](Forgery& f) { f.text("dataset_fingerprint", "-000000000000001"); });
  for (const char* name : {"layers", "heads", "width", "context", "vocabulary"})
    for (const int64_t value : {int64_t{0}, int64_t{-1}, int64_t{1} << 20, INT64_MAX})
      refused(": ", [&](Forgery& f) { f.integer(name, value); });
  refused("do not fit a model of 16777216 layers", [](Forgery& f) { f.integer("layers", 1 << 24); });
  refused("no model that can be", [](Forgery& f) { f.real("dropout", 1.5); });
  refused("no model that can be",
          [](Forgery& f) { f.real("dropout", std::numeric_limits<double>::quiet_NaN()); });
  refused("make no ranges", [](Forgery& f) { f.numbers("skipped", {1, 2, 3}); });
  refused("is no range", [](Forgery& f) { f.numbers("skipped", {2, 1}); });
  refused("is no range", [](Forgery& f) { f.numbers("skipped", {1, uint64_t{1} << 63}); });
  refused("says that it holds", [](Forgery& f) { f.huge("skipped", H5T_STD_U64LE); });
  refused("says that it holds", [](Forgery& f) { f.huge("tokenizer", H5T_STD_U8LE); });
  refused("says that it holds", [](Forgery& f) { f.huge("state/params", H5T_IEEE_F32LE); });
  refused("says that it holds", [](Forgery& f) { f.huge("checksums/params", H5T_STD_U64LE); });
  refused(":tokenizer: it is missing", [](Forgery& f) { f.remove("tokenizer"); });
  refused(":state/params: it is missing", [](Forgery& f) { f.remove("state/params"); });
  refused(":checksums/params: it is missing", [](Forgery& f) { f.remove("checksums/params"); });
  refused("2 checksums", [](Forgery& f) { f.numbers("checksums/params", {1, 2}); });
  refused("block 0 of 1 is damaged", [](Forgery& f) { f.numbers("checksums/params", {1}); });
  refused("not a text", [](Forgery& f) { f.numbers("configuration", {1}); });
  refused("where the commit record says", [](Forgery& f) { f.record().extents.clear(); });
  refused("where the commit record says", [](Forgery& f) { f.record().extents.front().end -= 4; });
}

}  // namespace
}  // namespace gpt
