#include "ec_offload/verbs_exp/job.h"

#include <algorithm>
#include <cerrno>

namespace ring::ec_verbs {
namespace {

bool Meet(const ibv_sge& a, const ibv_sge& b) {
  return a.addr < b.addr ? b.addr - a.addr < a.length : a.addr - b.addr < b.length;
}

// Counts, the block size, and the length of every entry; not yet where the blocks are.
int CheckLists(const ibv_exp_ec_mem* mem, std::size_t data_count, std::size_t code_count) {
  if (mem == nullptr || mem->data_blocks == nullptr || mem->code_blocks == nullptr) return -EINVAL;
  if (mem->num_data_sge < 0 || static_cast<std::size_t>(mem->num_data_sge) != data_count ||
      mem->num_code_sge < 0 || static_cast<std::size_t>(mem->num_code_sge) != code_count) {
    return -EINVAL;
  }
  // What hardware would leave out of a block of another size must not be calculated here.
  if (mem->block_size <= 0 || mem->block_size % kBlockSizeUnit != 0) return -EINVAL;
  const auto size = static_cast<std::uint32_t>(mem->block_size);
  for (std::size_t i = 0; i < data_count; ++i) {
    if (mem->data_blocks[i].length != size) return EINVAL;
  }
  for (std::size_t i = 0; i < code_count; ++i) {
    if (mem->code_blocks[i].length != size) return EINVAL;
  }
  return 0;
}

bool MeetsAny(const ibv_sge& sge, const std::vector<ibv_sge>& others) {
  return std::any_of(others.begin(), others.end(),
                     [&sge](const ibv_sge& other) { return Meet(sge, other); });
}

// What is read and written is somewhere, and an output meets no other block that the call names,
// read or not (`unread`). Of an update an output may be the very input that it replaces.
int CheckPlaces(const Job& job, const std::vector<ibv_sge>& unread, bool in_place) {
  for (const ibv_sge& input : job.inputs) {
    if (input.addr == 0 || input.addr + input.length < input.addr) return -EINVAL;
  }
  for (std::size_t i = 0; i < job.outputs.size(); ++i) {
    const ibv_sge& output = job.outputs[i];
    if (output.addr == 0 || output.addr + output.length < output.addr) return -EINVAL;
    for (std::size_t other = i + 1; other < job.outputs.size(); ++other) {
      if (Meet(output, job.outputs[other])) return -EINVAL;
    }
    for (std::size_t other = 0; other < job.inputs.size(); ++other) {
      if (in_place && other == i && output.addr == job.inputs[other].addr) continue;
      if (Meet(output, job.inputs[other])) return -EINVAL;
    }
    if (MeetsAny(output, unread)) return -EINVAL;
  }
  return 0;
}

std::size_t CountSet(const std::uint8_t* map, std::size_t size) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < size; ++i) count += map[i] != 0;
  return count;
}

void SizeMatrix(Job* job) { job->matrix.assign(job->outputs.size() * job->inputs.size(), '\0'); }

}  // namespace

int ReadCode(const ibv_exp_ec_calc_init_attr& attr, Code* code) {
  const bool field = attr.w == 1 || attr.w == 2 || attr.w == 4 || attr.w == 8;
  if (!field || attr.k < 1 || attr.m < 1 || attr.encode_matrix == nullptr) return EINVAL;
  const auto k = static_cast<std::size_t>(attr.k);
  const auto m = static_cast<std::size_t>(attr.m);
  if (k > kBlocksMax || m > kBlocksMax || k + m > (std::size_t{1} << attr.w)) return EINVAL;
  if (attr.max_data_sge != attr.k || attr.max_code_sge != attr.m) return EINVAL;
  if (attr.max_inflight_calcs > kInflightMax) return EINVAL;
  code->k = k;
  code->m = m;
  code->w = attr.w;
  code->matrix.assign(reinterpret_cast<const char*>(attr.encode_matrix), k * m);
  return 0;
}

ec_offload::Matrix Job::ToMatrix() const {
  ec_offload::Matrix result(outputs.size(), inputs.size());
  for (std::size_t output = 0; output < outputs.size(); ++output) {
    for (std::size_t input = 0; input < inputs.size(); ++input) {
      result.At(output, input) = static_cast<std::uint8_t>(matrix[output * inputs.size() + input]);
    }
  }
  return result;
}

int PlanEncode(const Code& code, const ibv_exp_ec_mem* mem, Job* job) {
  if (const int error = CheckLists(mem, code.k, code.m); error != 0) return error;
  job->inputs.assign(mem->data_blocks, mem->data_blocks + code.k);
  job->outputs.assign(mem->code_blocks, mem->code_blocks + code.m);
  SizeMatrix(job);
  for (std::size_t j = 0; j < code.m; ++j) {
    for (std::size_t i = 0; i < code.k; ++i) {
      job->matrix[j * code.k + i] = static_cast<char>(code.Factor(i, j));
    }
  }
  return CheckPlaces(*job, {}, false);
}

int PlanDecode(const Code& code, const ibv_exp_ec_mem* mem, const std::uint8_t* erasures,
               const std::uint8_t* decode_matrix, Job* job) {
  if (erasures == nullptr || decode_matrix == nullptr) return -EINVAL;
  if (const int error = CheckLists(mem, code.k, code.m); error != 0) return error;
  const std::size_t erased = CountSet(erasures, code.k + code.m);
  if (erased > code.m) return -EINVAL;
  // The first k that are left, in the order of blocks; the erased ones in that order, too.
  job->inputs.clear();
  job->outputs.clear();
  std::vector<ibv_sge> unread;
  for (std::size_t block = 0; block < code.k + code.m; ++block) {
    const ibv_sge& sge =
        block < code.k ? mem->data_blocks[block] : mem->code_blocks[block - code.k];
    if (erasures[block] != 0) {
      job->outputs.push_back(sge);
    } else if (job->inputs.size() < code.k) {
      job->inputs.push_back(sge);
    } else {
      unread.push_back(sge);
    }
  }
  SizeMatrix(job);
  for (std::size_t i = 0; i < code.k; ++i) {
    for (std::size_t output = 0; output < erased; ++output) {
      job->matrix[output * code.k + i] = static_cast<char>(decode_matrix[i * erased + output]);
    }
  }
  return CheckPlaces(*job, unread, false);
}

int PlanUpdate(const Code& code, const ibv_exp_ec_mem* mem, const std::uint8_t* data_updates,
               const std::uint8_t* code_updates, Job* job) {
  if (data_updates == nullptr || code_updates == nullptr) return -EINVAL;
  const std::size_t data_count = CountSet(data_updates, code.k);
  const std::size_t code_count = CountSet(code_updates, code.m);
  if (data_count == 0 || code_count == 0) return -EINVAL;
  // With so much to read, encoding again is the better way; the driver insists.
  if (code.m + 2 * data_count >= code.k) return -EINVAL;
  if (const int error = CheckLists(mem, code_count + 2 * data_count, code_count); error != 0) {
    return error;
  }
  job->inputs.assign(mem->data_blocks, mem->data_blocks + code_count + 2 * data_count);
  job->outputs.assign(mem->code_blocks, mem->code_blocks + code_count);
  SizeMatrix(job);
  // A code block is its old bytes, and of each data block the old bytes and the new ones, both by
  // the factor of that block: in characteristic 2 the old ones vanish.
  std::size_t output = 0;
  for (std::size_t j = 0; j < code.m; ++j) {
    if (code_updates[j] == 0) continue;
    char* const row = &job->matrix[output * job->inputs.size()];
    row[output] = 1;
    std::size_t input = code_count;
    for (std::size_t i = 0; i < code.k; ++i) {
      if (data_updates[i] == 0) continue;
      row[input] = row[input + 1] = static_cast<char>(code.Factor(i, j));
      input += 2;
    }
    ++output;
  }
  return CheckPlaces(*job, {}, true);
}

}  // namespace ring::ec_verbs
