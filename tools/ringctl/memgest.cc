// ringctl memgest: shows the catalogue, and changes it.
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/common/format.h"
#include "tools/common/repair_names.h"
#include "tools/common/size_option.h"
#include "tools/ringctl/admin_connect.h"
#include "tools/ringctl/output.h"

namespace ring::tools {
namespace {

using protocol::MemgestDescriptor;

// Connects, and prints what the command's body says failed.
int WithAdmin(const Options& options, const std::string& context,
              const std::function<absl::Status(admin::AdminClient&)>& body) {
  const auto client = ConnectAdmin(options);
  if (!client.ok()) return FailToConnect(options, In(context, client.status()));
  const absl::Status status = body(**client);
  return status.ok() ? kExitOk : Fail(options, In(context, status));
}

int List(const Options& options, bool all) {
  return WithAdmin(options, "memgest list", [&](admin::AdminClient& client) {
    const auto view = client.GetClusterView();
    if (!view.ok()) return view.status();
    nlohmann::json list = nlohmann::json::array();
    Table table({"ID", "NAME", "SCHEME", "COMMIT", "SURVIVES", "OVERHEAD", "BLOCK", "STATE", ""});
    for (const std::size_t column : {1, 2, 3, 7, 8}) table.AlignLeft(column);
    for (const MemgestDescriptor& memgest : view->memgests) {
      if (memgest.state == protocol::MemgestState::kDeleted && !all) continue;
      const bool is_default = memgest.id == view->default_memgest;
      list.push_back(MemgestJson(memgest, is_default));
      table.AddRow({absl::StrCat(memgest.id.value()), memgest.name, memgest.SchemeName(),
                    CommitName(memgest), absl::StrCat(memgest.FailuresTolerated()),
                    absl::StrFormat("%.2fx", memgest.StorageOverhead()),
                    FormatBytes(memgest.block_size),
                    std::string(protocol::StateName(memgest.state)), is_default ? "default" : ""});
    }
    if (options.json) {
      PrintJson({{"memgests", list}});
    } else {
      std::printf("%s", table.ToString().c_str());
    }
    return absl::OkStatus();
  });
}

void PrintMemgest(const MemgestDescriptor& memgest, bool is_default,
                  const node::MemgestStats& stats) {
  const std::vector<std::pair<const char*, std::string>> lines = {
      {"name", memgest.name},
      {"id", absl::StrCat(memgest.id.value())},
      {"scheme", memgest.SchemeName()},
      {"commit", CommitName(memgest)},
      {"state", absl::StrCat(protocol::StateName(memgest.state), is_default ? ", default" : "")},
      {"survives", absl::StrCat(memgest.FailuresTolerated(), " lost nodes (f)")},
      {"overhead", absl::StrFormat("%.2f bytes a byte of value", memgest.StorageOverhead())},
      {"block size", FormatBytes(memgest.block_size)},
      {"repair", memgest.scheme == protocol::Scheme::kReplicated
                     ? "copies"
                     : std::string(protocol::RepairName(memgest.repair))},
      {"keys", absl::StrCat(stats.keys)},
      {"versions", absl::StrCat(stats.versions)},
      {"values", FormatBytes(static_cast<double>(stats.logical_bytes))},
      {"slots", FormatBytes(static_cast<double>(stats.slot_bytes))},
      {"resident", FormatBytes(static_cast<double>(stats.resident_bytes))}};
  for (const auto& [label, value] : lines) std::printf("%-13s %s\n", label, value.c_str());
  if (memgest.FailuresTolerated() == 0) {
    std::printf("%-13s values are lost when their node is\n", "unreliable");
  }
}

int Show(const Options& options, const std::string& name) {
  return WithAdmin(options, absl::StrCat("memgest show ", ShowBytes(name)),
                   [&](admin::AdminClient& client) {
                     const auto memgest = client.GetMemgestDescriptor(name);
                     if (!memgest.ok()) return memgest.status();
                     const auto view = client.GetClusterView();
                     if (!view.ok()) return view.status();
                     const auto stats = client.GetStats();
                     if (!stats.ok()) return stats.status();
                     const bool is_default = view->default_memgest == memgest->id;
                     node::MemgestStats counts;
                     for (const node::MemgestStats& one : stats->memgests) {
                       if (one.id == memgest->id) counts = one;
                     }
                     if (options.json) {
                       nlohmann::json out = MemgestJson(*memgest, is_default);
                       out["stats"] = StatsJson(counts);
                       PrintJson(out);
                     } else {
                       PrintMemgest(*memgest, is_default, counts);
                     }
                     return absl::OkStatus();
                   });
}

struct CreateCommand {
  std::string name;
  int rep = 0;
  std::string srs;
  std::string commit;  // empty: by a quorum
  std::optional<protocol::RepairScheme> repair;
  std::uint64_t block_size = protocol::kBlockSizeDefault;
};

int Create(const Options& options, const CreateCommand& command) {
  if ((command.rep != 0) == !command.srs.empty()) {
    return FailUsage("memgest create: give one of --rep R and --srs K,M");
  }
  if (!command.srs.empty() && !command.commit.empty()) {
    return FailUsage(
        "memgest create: --commit is for --rep: a put into --srs K,M waits for all parities");
  }
  if (command.repair.has_value() && command.srs.empty())
    return FailUsage("memgest create: --repair is for --srs: a lost value of --rep is copied");
  MemgestDescriptor wanted;
  wanted.repair = command.repair.value_or(wanted.repair);
  wanted.name = command.name;
  wanted.block_size = static_cast<std::uint32_t>(command.block_size);
  if (command.rep != 0) {
    wanted.r = static_cast<std::uint8_t>(command.rep);
    if (command.commit == "all") wanted.commit = protocol::CommitRule::kAll;
  } else {
    const std::vector<std::string> parts = SplitList(command.srs);
    int k = 0;
    int m = 0;
    if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &k) || !absl::SimpleAtoi(parts[1], &m) ||
        k < 0 || k > 255 || m < 0 || m > 255) {
      return FailUsage(
          absl::StrCat("memgest create: --srs ", command.srs, " must be K,M such as 3,2"));
    }
    wanted.scheme = protocol::Scheme::kStretchedReedSolomon;
    wanted.r = 0;
    wanted.k = static_cast<std::uint8_t>(k);
    wanted.m = static_cast<std::uint8_t>(m);
  }
  const std::string context =
      absl::StrCat("memgest create ", command.name.empty() ? wanted.SchemeName() : command.name);
  return WithAdmin(options, context, [&](admin::AdminClient& client) {
    const auto created = client.CreateMemgest(wanted);
    if (!created.ok()) return created.status();
    if (options.json) {
      PrintJson(MemgestJson(*created, false));
    } else {
      std::printf("created memgest=%s id=%d %s survives=%d overhead=%.2fx\n", created->name.c_str(),
                  created->id.value(), created->SchemeName().c_str(), created->FailuresTolerated(),
                  created->StorageOverhead());
    }
    return absl::OkStatus();
  });
}

// A command that changes one memgest and answers nothing.
int Change(const Options& options, const char* verb, const char* done, const std::string& name,
           const std::function<absl::Status(admin::AdminClient&)>& body) {
  const std::string context = absl::StrCat("memgest ", verb, " ", ShowBytes(name));
  return WithAdmin(options, context, [&](admin::AdminClient& client) {
    const absl::Status status = body(client);
    if (!status.ok()) return status;
    if (options.json) {
      PrintJson({{"name", name}, {done, true}});
    } else {
      std::printf("%s memgest=%s\n", done, name.c_str());
    }
    return absl::OkStatus();
  });
}

void AddCreate(CLI::App* memgest, Invocation* invocation) {
  auto command = std::make_shared<CreateCommand>();
  CLI::App* sub = memgest->add_subcommand("create", "Make a memgest");
  sub->add_option("--rep", command->rep, "Replicated: R copies of every value")
      ->check(CLI::Range(1, 255))
      ->type_name("R");
  sub->add_option("--srs", command->srs, "Stretched Reed-Solomon: K data and M parity blocks")
      ->type_name("K,M");
  sub->add_option("--name", command->name, "Its name (default: from the scheme)")
      ->type_name("NAME");
  sub->add_option("--commit", command->commit,
                  "With --rep, a put is acknowledged by a quorum (default), or by all copies")
      ->check(CLI::IsMember({"quorum", "all"}));
  sub->add_option("--repair", command->repair,
                  "With --srs, how lost blocks come back: rs (default), ppr, ecpipe, triec")
      ->transform(CLI::CheckedTransformer(RepairNames()))
      ->type_name("SCHEME");
  AddSizeOption(sub, "--block-size", command->block_size, "Block of the layout: 4KiB to 2MiB")
      ->check(CLI::Range(std::uint64_t{protocol::kBlockSizeMin},
                         std::uint64_t{protocol::kBlockSizeMax}));
  sub->callback([=] { invocation->run = [=] { return Create(invocation->options, *command); }; });
}

void AddDelete(CLI::App& app, CLI::App* memgest, Invocation* invocation) {
  auto name = std::make_shared<std::string>();
  auto force = std::make_shared<bool>(false);
  CLI::App* sub = memgest->add_subcommand("delete", "Delete a memgest that holds no keys");
  sub->add_option("name", *name, "The memgest")->required()->type_name("NAME");
  sub->add_flag("--force", *force, "Also when it holds keys: they are deleted with it");
  sub->callback([=, &app] {
    // It writes a tombstone for every key first, which may take this long.
    if (*force && app.count("--timeout") == 0)
      invocation->options.timeout_s = absl::ToDoubleSeconds(admin::kDeadlineMax);
    invocation->run = [=] {
      return Change(
          invocation->options, "delete", "deleted", *name,
          [&](admin::AdminClient& client) { return client.DeleteMemgest(*name, *force); });
    };
  });
}

void AddDefault(CLI::App* memgest, Invocation* invocation) {
  auto name = std::make_shared<std::string>();
  CLI::App* sub = memgest->add_subcommand("default", "Make a memgest the default one");
  sub->add_option("name", *name, "The memgest")->required()->type_name("NAME");
  sub->callback([=] {
    invocation->run = [=] {
      return Change(invocation->options, "default", "default", *name,
                    [&](admin::AdminClient& client) { return client.SetDefaultMemgest(*name); });
    };
  });
}

}  // namespace

void AddMemgest(CLI::App& app, Invocation* invocation) {
  CLI::App* memgest = AddAdminCommand(app, kMemgestCommand);
  memgest->require_subcommand(1);
  memgest->fallthrough();
  auto all = std::make_shared<bool>(false);
  CLI::App* list = memgest->add_subcommand("list", "List the memgests");
  list->add_flag("--all", *all, "Deleted ones, too");
  list->callback([=] { invocation->run = [=] { return List(invocation->options, *all); }; });
  auto name = std::make_shared<std::string>();
  CLI::App* show = memgest->add_subcommand("show", "Show what a memgest survives, costs and holds");
  show->add_option("name", *name, "The memgest")->required()->type_name("NAME");
  show->callback([=] { invocation->run = [=] { return Show(invocation->options, *name); }; });
  AddCreate(memgest, invocation);
  AddDelete(app, memgest, invocation);
  AddDefault(memgest, invocation);
}

}  // namespace ring::tools
