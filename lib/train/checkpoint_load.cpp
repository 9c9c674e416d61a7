#include "base/contracts.hpp"
#include "base/error.hpp"
#include "base/fault.hpp"
#include "base/hash.hpp"
#include "train/checkpoint_format.hpp"

#include <algorithm>

namespace gpt {
namespace {

std::vector<uint64_t> read_checksums(const H5File& file, const std::string& name, int64_t elements) {
  const H5Dataset dataset = file.open_dataset(checksum_path(name));
  validate(dataset.element() == H5Element::u64 && dataset.size() == checkpoint_blocks(elements),
           ExitCode::damaged, "{}: {} checksums, {} blocks need as many", dataset.where(), dataset.size(),
           checkpoint_blocks(elements));
  std::vector<uint64_t> checksums(static_cast<size_t>(dataset.size()));
  dataset.read({0, dataset.size()}, H5Element::u64, checksums.data());
  return checksums;
}

void load_tensor(const OpenCheckpoint& checkpoint, const StateTensor& tensor, int64_t elements) {
  const H5Dataset dataset = checkpoint.file.open_dataset(state_path(tensor.name));
  validate(dataset.element() == H5Element::f32 && dataset.size() == elements, ExitCode::damaged,
           "{}: {} elements of {} bytes, the model has {} of 4", dataset.where(), dataset.size(),
           size_of(dataset.element()), elements);
  validate(std::ranges::count(checkpoint.record.extents, extent_of(dataset)) == 1, ExitCode::damaged,
           "{}: it does not lie where the commit record says", dataset.where());

  const std::vector<uint64_t> checksums = read_checksums(checkpoint.file, tensor.name, elements);
  float* data = tensor.data.data<float>();
  for (int64_t block = 0; block < std::ssize(checksums); ++block) {
    const Range range = elements_of_blocks({block, block + 1}, elements);
    dataset.read(range, H5Element::f32, data + range.begin);
    const uint64_t found = hash_bytes(data + range.begin, static_cast<size_t>(range.size()) * sizeof(float));
    validate(found == checksums[static_cast<size_t>(block)], ExitCode::damaged,
             "{}: block {} of {} is damaged: its checksum is {}, {} was written", dataset.where(), block,
             checksums.size(), to_hex(found), to_hex(checksums[static_cast<size_t>(block)]));
  }
}

}  // namespace

CheckpointHeader read_checkpoint_header(const std::string& path) {
  const OpenCheckpoint checkpoint = open_checkpoint(path);
  CheckpointHeader header = parse_header(checkpoint.file);
  const CommitRecord& record = checkpoint.record;
  validate(header.step == record.step && header.run_id == record.run_id && header.branch == record.branch &&
               header.parent_step == record.parent_step,
           ExitCode::damaged,
           "checkpoint {}: its attributes and its commit record tell of different checkpoints", path);
  return header;
}

void load_state(const std::string& path, const Layout& layout, const std::vector<StateTensor>& state) {
  fault_point("load");
  const OpenCheckpoint checkpoint = open_checkpoint(path);
  for (const StateTensor& tensor : state) {
    expects(tensor.data.size() == layout.size());
    validate(checkpoint.file.contains(state_path(tensor.name)),
             "checkpoint {} holds no state '{}': it was written with another optimizer", path, tensor.name);
    load_tensor(checkpoint, tensor, layout.size());
  }
}

}  // namespace gpt
