#include "data/manifest.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "data/file_io.hpp"
#include "data/shard_format.hpp"
#include "h5/h5.hpp"

#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>

namespace gpt {
namespace {

constexpr int64_t longest_source = 4096;

void write_shards(H5File& file, Split split, const std::vector<ShardInfo>& shards) {
  const std::string group = fmt::format("/{}", name_of(split));
  const int64_t count = static_cast<int64_t>(shards.size());
  file.set_attribute(fmt::format("{}_shards", name_of(split)), count);
  if (count == 0) return;
  std::vector<uint64_t> tokens, documents, checksums;
  for (const ShardInfo& shard : shards) {
    tokens.push_back(static_cast<uint64_t>(shard.tokens));
    documents.push_back(static_cast<uint64_t>(shard.documents));
    checksums.push_back(shard.checksum);
  }
  file.make_group(group);
  const auto put = [&](const char* name, const std::vector<uint64_t>& values) {
    file.create_dataset(group + name, H5Element::u64, count).write({0, count}, H5Element::u64, values.data());
  };
  put("/tokens", tokens);
  put("/documents", documents);
  put("/checksums", checksums);
}

std::vector<ShardInfo> read_shards(const H5File& file, Split split) {
  const std::string group = fmt::format("/{}", name_of(split));
  const int64_t count = file.integer(fmt::format("{}_shards", name_of(split)));
  validate(count >= 0 && count <= most_shards, ExitCode::damaged, "{}: {} {} shards: 0 to {} are possible",
           file.path(), count, name_of(split), most_shards);
  if (count == 0) return {};
  const auto get = [&](const char* name) {
    const H5Dataset dataset = file.open_dataset(group + name);
    validate(dataset.size() == count, ExitCode::damaged, "{} has {} entries for {} shards", dataset.where(),
             dataset.size(), count);
    std::vector<uint64_t> values(static_cast<size_t>(count));
    dataset.read({0, count}, H5Element::u64, values.data());
    return values;
  };
  const auto tokens = get("/tokens");
  const auto documents = get("/documents");
  const auto checksums = get("/checksums");

  std::vector<ShardInfo> shards;
  for (size_t i = 0; i < tokens.size(); ++i) {
    validate(
        tokens[i] >= 1 && tokens[i] <= most_shard_tokens && documents[i] >= 1 && documents[i] <= tokens[i],
        ExitCode::damaged, "{}: {} shard {} cannot have {} tokens in {} documents", file.path(),
        name_of(split), i, tokens[i], documents[i]);
    shards.push_back({shard_file(split, static_cast<int64_t>(i), count), static_cast<int64_t>(tokens[i]),
                      static_cast<int64_t>(documents[i]), checksums[i]});
  }
  return shards;
}

}  // namespace

uint64_t Manifest::fingerprint() const {
  std::string text = fmt::format("{}\n{} {}\n", tokenizer, vocabulary, token_bytes);
  for (const Split split : {Split::train, Split::val}) {
    for (const ShardInfo& shard : shards(split)) {
      text += fmt::format("{} {} {}\n", name_of(split), shard.tokens, to_hex(shard.checksum));
    }
  }
  return hash_bytes(text);
}

Manifest Manifest::read(const std::string& folder) {
  const std::filesystem::path path = std::filesystem::path(folder) / manifest_file;
  std::error_code ignored;
  validate(std::filesystem::exists(folder, ignored),
           "there is no dataset folder '{}': make one with  gpt_data pack --input FILE --out {}", folder,
           folder);
  validate(
      std::filesystem::is_directory(folder, ignored),
      "'{}' is not a dataset folder: turn a text file into one with  gpt_data pack --input FILE --out FOLDER",
      folder);
  if (!std::filesystem::exists(path, ignored)) {
    validate(!std::filesystem::exists(std::filesystem::path(folder) / "config.ini", ignored),
             "'{}' is a run folder, not a dataset: name the folder that gpt_data made", folder);
    throw Error(fmt::format("'{}' holds no {}: it is not a dataset, or making it did not finish", folder,
                            manifest_file),
                ExitCode::usage);
  }

  const H5File file = H5File::open(path.string());
  validate(file.string("kind") == manifest_kind, ExitCode::damaged,
           "{} is not a dataset's manifest: its kind is '{}'", file.path(), file.string("kind"));
  validate(file.integer("format") == format, ExitCode::damaged,
           "{} has format {}, this program reads {}: use the version that wrote it, or pack the data again",
           file.path(), file.integer("format"), format);
  Manifest manifest;
  manifest.tokenizer = file.read_text("/tokenizer", longest_tokenizer);
  manifest.source = file.read_text("/source", longest_source);
  manifest.vocabulary = file.integer("vocabulary");
  manifest.token_bytes = file.integer("token_bytes");
  manifest.seed = std::bit_cast<uint64_t>(file.integer("seed"));
  if (const double entropy = file.real("entropy"); !std::isnan(entropy)) {
    validate(entropy >= 0 && std::isfinite(entropy), ExitCode::damaged, "{}: an entropy of {} nats",
             file.path(), entropy);
    manifest.entropy = entropy;
  }
  validate(manifest.vocabulary >= 1 && manifest.vocabulary <= largest_vocabulary, ExitCode::damaged,
           "{}: a vocabulary of {} tokens", file.path(), manifest.vocabulary);
  validate(manifest.token_bytes == token_bytes_for(manifest.vocabulary), ExitCode::damaged,
           "{}: {} bytes per token do not fit a vocabulary of {}, which takes {}", file.path(),
           manifest.token_bytes, manifest.vocabulary, token_bytes_for(manifest.vocabulary));
  manifest.train = read_shards(file, Split::train);
  manifest.val = read_shards(file, Split::val);
  validate(!manifest.train.empty(), ExitCode::damaged, "{}: the dataset has no training shards", file.path());
  return manifest;
}

void Manifest::write(const std::string& folder) const {
  const std::string path = (std::filesystem::path(folder) / manifest_file).string();
  const std::string partial = path + ".partial";
  H5File file = H5File::create(partial);
  file.set_attribute("kind", std::string(manifest_kind));
  file.set_attribute("format", format);
  file.set_attribute("vocabulary", vocabulary);
  file.set_attribute("token_bytes", token_bytes);
  file.set_attribute("seed", std::bit_cast<int64_t>(seed));
  file.set_attribute("entropy", entropy.value_or(std::numeric_limits<double>::quiet_NaN()));
  file.write_text("/tokenizer", tokenizer);
  file.write_text("/source", source.substr(0, longest_source));
  write_shards(file, Split::train, train);
  write_shards(file, Split::val, val);
  file.close();
  publish_file(partial, path);
}

}  // namespace gpt
