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

}  // namespace

void read_blocks(const OpenCheckpoint& checkpoint, const StateReader& reader, int64_t elements,
                 Range blocks) {
  const H5Dataset dataset = checkpoint.file.open_dataset(state_path(reader.name));
  validate(dataset.element() == H5Element::f32 && dataset.size() == elements, ExitCode::damaged,
           "{}: {} elements of {} bytes, the model has {} of 4", dataset.where(), dataset.size(),
           size_of(dataset.element()), elements);
  validate(std::ranges::count(checkpoint.record.extents, extent_of(dataset)) == 1, ExitCode::damaged,
           "{}: it does not lie where the commit record says", dataset.where());

  const std::vector<uint64_t> checksums = read_checksums(checkpoint.file, reader.name, elements);
  std::vector<float> memory(static_cast<size_t>(elements_of_blocks({0, 1}, elements).size()));
  for (int64_t block = blocks.begin; block < blocks.end; ++block) {
    const Range range = elements_of_blocks({block, block + 1}, elements);
    const Tensor data(memory.data(), DType::f32, {range.size()});
    dataset.read(range, H5Element::f32, data.raw());
    const uint64_t found = hash_bytes(data.raw(), static_cast<size_t>(data.bytes()));
    validate(found == checksums[static_cast<size_t>(block)], ExitCode::damaged,
             "{}: block {} of {} is damaged: its checksum is {}, {} was written", dataset.where(), block,
             checksums.size(), to_hex(found), to_hex(checksums[static_cast<size_t>(block)]));
    reader.take(range, data);
  }
}

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

void read_state(const std::string& path, const Layout& layout, const std::vector<StateReader>& readers) {
  check_file(file_point("load"), ExitCode::damaged, "cannot read " + path);
  const OpenCheckpoint checkpoint = open_checkpoint(path);
  for (const StateReader& reader : readers) {
    validate(checkpoint.file.contains(state_path(reader.name)),
             "checkpoint {} holds no state '{}': it was written with another optimizer", path, reader.name);
    read_blocks(checkpoint, reader, layout.size(), {0, checkpoint_blocks(layout.size())});
  }
}

void load_state(const std::string& path, const Layout& layout, const std::vector<StateTensor>& state) {
  std::vector<StateReader> readers;
  for (const StateTensor& tensor : state) {
    expects(tensor.data.size() == layout.size() && tensor.first == 0);
    readers.push_back({tensor.name, [&tensor](Range elements, Tensor block) {
                         const float* const first = block.data<float>();
                         std::copy(first, first + block.size(), tensor.data.data<float>() + elements.begin);
                       }});
  }
  read_state(path, layout, readers);
}

}  // namespace gpt
