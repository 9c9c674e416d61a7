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

H5Dataset open_values(const OpenCheckpoint& checkpoint, const std::string& name, int64_t elements) {
  H5Dataset dataset = checkpoint.file.open_dataset(state_path(name));
  validate(dataset.element() == H5Element::f32 && dataset.size() == elements, ExitCode::damaged,
           "{}: {} elements of {} bytes, the model has {} of 4", dataset.where(), dataset.size(),
           size_of(dataset.element()), elements);
  validate(std::ranges::count(checkpoint.record.extents, extent_of(dataset)) == 1, ExitCode::damaged,
           "{}: it does not lie where the commit record says", dataset.where());
  return dataset;
}

}  // namespace

StateBlocks::StateBlocks(const OpenCheckpoint& checkpoint, const std::string& name, int64_t elements)
    : values_(open_values(checkpoint, name, elements)),
      checksums_(read_checksums(checkpoint.file, name, elements)),
      memory_(static_cast<size_t>(elements_of_blocks({0, 1}, elements).size())),
      elements_(elements) {}

StateBlocks::Block StateBlocks::read(int64_t number) {
  expects(number >= 0 && number < count());
  Block block{.elements = elements_of_blocks({number, number + 1}, elements_),
              .data = {},
              .written = checksums_[static_cast<size_t>(number)]};
  block.data = Tensor(memory_.data(), DType::f32, {block.elements.size()});
  values_.read(block.elements, H5Element::f32, block.data.raw());
  block.found = hash_bytes(block.data.raw(), static_cast<size_t>(block.data.bytes()));
  return block;
}

StateBlocks::Block StateBlocks::read_whole(int64_t number) {
  const Block block = read(number);
  validate(block.is_whole(), ExitCode::damaged,
           "{}: block {} of {} is damaged: its checksum is {}, {} was written", where(), number, count(),
           to_hex(block.found), to_hex(block.written));
  return block;
}

void read_blocks(const OpenCheckpoint& checkpoint, const StateReader& reader, int64_t elements,
                 Range blocks) {
  StateBlocks tensor(checkpoint, reader.name, elements);
  for (int64_t number = blocks.begin; number < blocks.end; ++number) {
    const StateBlocks::Block block = tensor.read_whole(number);
    reader.take(block.elements, block.data);
  }
}

CheckpointHeader header_of(const OpenCheckpoint& checkpoint) {
  CheckpointHeader header = parse_header(checkpoint.file);
  const CommitRecord& record = checkpoint.record;
  validate(header.step == record.step && header.run_id == record.run_id && header.branch == record.branch &&
               header.parent_step == record.parent_step,
           ExitCode::damaged,
           "checkpoint {}: its attributes and its commit record tell of different checkpoints",
           checkpoint.file.path());
  return header;
}

std::vector<std::string> state_names(const OpenCheckpoint& checkpoint) {
  return checkpoint.file.names_in("state", CommitRecord::most_extents);
}

CheckpointHeader read_checkpoint_header(const std::string& path) { return header_of(open_checkpoint(path)); }

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
