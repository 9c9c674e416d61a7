#include "data/reshard.hpp"

#include "base/error.hpp"
#include "data/dataset.hpp"
#include "data/dataset_writer.hpp"
#include "data/shard_documents.hpp"
#include "data/verify.hpp"

#include <algorithm>
#include <filesystem>
#include <vector>

namespace gpt {
namespace {

constexpr int64_t piece_tokens = 1 << 18;

int64_t count(const std::vector<ShardInfo>& shards) {
  int64_t tokens = 0;
  for (const ShardInfo& shard : shards) tokens += shard.tokens;
  return tokens;
}

void copy_shard(const Dataset& source, const ShardInfo& info, DatasetWriter& writer) {
  const Shard shard = Shard::open(source.folder(), info, source.manifest());
  const ShardDocuments documents(source.folder(), info);
  std::vector<Token> tokens;
  documents.for_each([&](Range document) {
    for (int64_t at = document.begin; at < document.end; at += static_cast<int64_t>(tokens.size())) {
      tokens.resize(static_cast<size_t>(std::min(document.end - at, piece_tokens)));
      shard.read(at, tokens);
      writer.append(tokens);
    }
    const bool goes_on = document.end == info.tokens && documents.last_open();
    if (!goes_on) writer.end_document();
  });
}

}  // namespace

Manifest reshard(const ReshardOptions& options, const Progress& progress) {
  const Dataset source(options.data);
  std::error_code ignored;
  validate(!std::filesystem::equivalent(options.data, options.out, ignored),
           "--out {} is the dataset itself: write the new one into another folder", options.out);
  const Manifest& old = source.manifest();
  const SplitPlan plan{count(old.train), options.shards, count(old.val),
                       static_cast<int64_t>(old.val.size())};
  plan.check();
  const VerifyReport report = verify(options.data, progress);
  validate(report.problems.empty(), ExitCode::damaged, "{} is damaged, see gpt_data verify: {}", options.data,
           report.problems.empty() ? "" : report.problems.front());

  OutputFolder folder(options.out, options.overwrite);
  DatasetWriter writer(folder, old, plan);
  int64_t done = 0;
  for (const Split split : {Split::train, Split::val}) {
    for (const ShardInfo& info : old.shards(split)) {
      copy_shard(source, info, writer);
      done += info.tokens;
      progress("writing", done, plan.train_tokens + plan.val_tokens);
    }
  }
  return writer.finish();
}

}  // namespace gpt
