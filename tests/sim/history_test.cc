#include "tests/sim/history.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace ring::sim {
namespace {

std::vector<std::string> Lines(const History& history,
                               void (History::*write)(std::FILE*) const = &History::WriteJson) {
  std::FILE* const file = std::tmpfile();
  (history.*write)(file);
  std::rewind(file);
  std::vector<std::string> lines;
  char line[1024];
  while (std::fgets(line, sizeof(line), file) != nullptr) lines.emplace_back(line);
  std::fclose(file);
  return lines;
}

TEST(History, WritesWhatAnotherCheckerNeeds) {
  History history;
  Operation put;
  put.process = 2;
  put.kind = OpKind::kPut;
  put.key = 3;
  put.value = 7;
  put.memgest_name = "REP1";
  put.tolerates = 0;
  put.if_version = Version();
  put.version = Version(Epoch(1), 4);
  put.invoke_ns = 10;
  put.return_ns = 20;
  put.result = OpResult::kOk;
  history.Add(put);
  Operation refused = put;
  refused.mismatch = true;
  refused.result = OpResult::kFailed;
  refused.invoke_ns = 30;
  refused.return_ns = 40;
  history.Add(refused);
  Operation pending;
  pending.invoke_ns = 50;
  history.Add(pending);
  EXPECT_EQ(Lines(history),
            std::vector<std::string>({
                R"({"process":2,"op":"put","key":"k3","value":"v7","memgest":"REP1","f":0,)"
                R"("if_version":"0.0","version":"1.4","invoke":10,"return":20,"outcome":"ok",)"
                R"("mismatch":false})"
                "\n",
                R"({"process":2,"op":"put","key":"k3","value":"v7","memgest":"REP1","f":0,)"
                R"("if_version":"0.0","version":"1.4","invoke":30,"return":40,)"
                R"("outcome":"failed","mismatch":true})"
                "\n",
                R"({"process":0,"op":"get","key":"k0","value":null,"memgest":"","f":null,)"
                R"("if_version":null,"version":null,"invoke":50,"return":null,)"
                R"("outcome":"unknown","mismatch":false})"
                "\n",
            }));
}

TEST(History, G6TellsWhatMayBeForgottenWhereItWas) {
  History history;
  Operation get;
  get.invoke_ns = 10;
  history.Add(get);
  history.AddLoss({15, Epoch(2), {0, 4}, /*everything=*/false});
  get.invoke_ns = 20;
  history.Add(get);
  history.AddLoss({25, Epoch(3), {1}, /*everything=*/true});
  EXPECT_EQ(Lines(history).size(), 2u);
  const std::vector<std::string> lines = Lines(history, &History::WriteLosses);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "{\"keys\":[\"k0\",\"k4\"],\"f\":0,\"before_epoch\":2,\"time\":15}\n");
  EXPECT_EQ(lines[1], "{\"keys\":[\"k1\"],\"f\":null,\"before_epoch\":3,\"time\":25}\n");
}

}  // namespace
}  // namespace ring::sim
