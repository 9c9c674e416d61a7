#include "fuzz/subjects.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "data/dataset.hpp"
#include "data/shard_documents.hpp"
#include "data/verify.hpp"
#include "fuzz/mutation.hpp"
#include "support/scratch_folder.hpp"
#include "support/small_checkpoint.hpp"
#include "train/checkpoint_survey.hpp"
#include "train/checkpoint_verify.hpp"
#include "train/commit_record.hpp"
#include "unit/small_dataset.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

namespace gpt::fuzz {
namespace {

// Small, so that most bytes of the file are not the state's.
constexpr GptConfig model{.layers = 1, .heads = 1, .width = 8, .context = 4, .vocabulary = 5};
constexpr int64_t vocabulary = 300;

std::string checkpoints_in(const std::string& folder) { return folder + "/checkpoints"; }
std::string dataset_in(const std::string& folder) { return folder + "/dataset"; }

std::span<const std::byte> record_bytes(const std::string& file) {
  return std::as_bytes(std::span(file)).last(CommitRecord::bytes);
}

/// The digest of bytes in memory, as digest_of_rest has it of a file.
uint64_t digest_of(const std::string& body, const std::vector<Range>& extents) {
  StreamHash hash;
  size_t begin = 0;
  for (const Range& extent : extents) {
    hash.update(body.data() + begin, static_cast<size_t>(extent.begin) - begin);
    begin = static_cast<size_t>(extent.end);
  }
  hash.update(body.data() + begin, body.size() - begin);
  return hash.digest();
}

/// What an enemy does: changes contents, and commits them with all checksums right. Of the record itself a
/// number may be changed, too.
std::string recommit(const std::string& seed, Draws& draws) {
  CommitRecord record = decode_commit_record(record_bytes(seed), std::ssize(seed));
  const std::string body = mutate(seed.substr(0, seed.size() - CommitRecord::bytes), draws);
  const int64_t end = std::ssize(body);
  std::erase_if(record.extents, [&](const Range& extent) { return extent.end > end; });
  if (draws.below(4) == 0 && !record.extents.empty()) record.extents.pop_back();
  record.file_size = end + CommitRecord::bytes;
  record.digest = digest_of(body, record.extents);
  const auto number = static_cast<int64_t>(notable_number(seed.size(), draws));
  switch (draws.below(16)) {
    case 0:
      record.step = number;
      break;
    case 1:
      record.branch = number;
      break;
    case 2:
      record.parent_step = number;
      break;
    case 3:
      if (!record.extents.empty()) record.extents.front().begin = number;
      break;
    case 4:
      if (!record.extents.empty()) record.extents.back().end = number;
      break;
    default:
      break;
  }
  const auto raw = encode_commit_record(record);
  return body + std::string(reinterpret_cast<const char*>(raw.data()), raw.size());
}

bool takes(const std::function<void()>& reader) {
  try {
    reader();
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool read_checkpoint(const std::string& folder, const std::string& file) {
  survey_checkpoints(folder);
  const bool whole = examine_checkpoint(file).damage.empty();
  const bool loads = takes([&] { test::load_all(file); });
  return whole || loads;
}

bool read_manifest(const std::string& folder) {
  const Dataset dataset(folder);
  dataset.manifest().fingerprint();
  return true;
}

bool read_shard(const std::string& folder) {
  const Manifest manifest = Manifest::read(folder);
  const ShardInfo& info = manifest.train.front();
  const bool tokens = takes([&] {
    const Shard shard = Shard::open(folder, info, manifest);
    std::vector<Token> all(static_cast<size_t>(shard.tokens()));
    shard.read(0, all);
  });
  const bool documents = takes([&] { ShardDocuments(folder, info).for_each([](Range) {}); });
  return verify(folder).problems.empty() || tokens || documents;
}

std::string change_anything(const std::string& seed, Draws& draws) { return mutate(seed, draws); }

}  // namespace

void write_seeds(const std::string& folder) {
  test::write_dataset(dataset_in(folder), test::counting(2000, vocabulary), 1, vocabulary,
                      test::counting(50, vocabulary));
  test::SmallState state(model);
  state.save(checkpoints_in(folder), state.header(1));
}

std::vector<Subject> make_subjects(const std::string& folder) {
  const std::string checkpoints = checkpoints_in(folder), dataset = dataset_in(folder);
  const std::string checkpoint = checkpoints + "/" + checkpoint_name(1);
  const std::string manifest = dataset + "/dataset.h5", shard = dataset + "/train-00000-of-00001.h5";
  const auto read_all = [checkpoints, checkpoint] { return read_checkpoint(checkpoints, checkpoint); };
  return {{.name = "checkpoint",
           .file = checkpoint,
           .seed = test::bytes_of(checkpoint),
           .change = change_anything,
           .read = read_all,
           .must_refuse = true},
          {.name = "recommitted",
           .file = checkpoint,
           .seed = test::bytes_of(checkpoint),
           .change = recommit,
           .read = read_all,
           .hdf5_sees_changes = true},
          {.name = "manifest",
           .file = manifest,
           .seed = test::bytes_of(manifest),
           .change = change_anything,
           .read = [dataset] { return read_manifest(dataset); },
           .hdf5_sees_changes = true},
          {.name = "shard",
           .file = shard,
           .seed = test::bytes_of(shard),
           .change = change_anything,
           .read = [dataset] { return read_shard(dataset); },
           .hdf5_sees_changes = true}};
}

}  // namespace gpt::fuzz
