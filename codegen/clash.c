/* SPDX-License-Identifier: Apache-2.0 */
/* clash.c - see clash.h. */
#include "codegen/clash.h"
#include "codegen/names.h"

#include <string.h>

struct owner {
    const char *kind; /* "message", "enum", "oneof" */
    const char *name;
    const struct sl_place *place;
};

struct walk {
    const struct sl_model *model;
    const struct sl_model_file *file;
    struct sl_report *report;
    struct sl_table *names; /* C name -> struct owner */
};

static struct owner *make_owner(struct walk *walk, const char *kind, const char *name,
                                struct sl_place place)
{
    struct sl_place *kept = sl_arena_alloc(walk->model->arena, sizeof *kept);
    struct owner *owner = sl_arena_alloc(walk->model->arena, sizeof *owner);
    *kept = place;
    *owner = (struct owner){kind, name, kept};
    return owner;
}

/* False, and an error, when another declaration has the name. */
static bool claim(struct walk *walk, const struct owner *owner, const char *name)
{
    const struct owner *other = sl_table_add(walk->names, name, owner);
    if (!other)
        return true;
    sl_report_at(walk->report, owner->place,
                 "%s %s and %s %s (%s) would both make %s in C; rename one", owner->kind,
                 owner->name, other->kind, other->name,
                 sl_place_text(walk->model->arena, other->place), name);
    return false;
}

static const struct sl_model_type *type_of(const struct walk *walk, const char *name)
{
    return sl_table_get(&walk->model->types, sl_arena_print(walk->model->arena, ".%s", name));
}

static void check_type_name(struct walk *walk, const struct owner *owner, const char *c_type)
{
    if (!*c_type || (*c_type >= '0' && *c_type <= '9'))
        sl_report_at(walk->report, owner->place, "%s %s has no name in C; rename it", owner->kind,
                     owner->name);
    else if (sl_names_is_type_taken(c_type))
        sl_report_at(walk->report, owner->place,
                     "%s %s would be %s in C, which is taken; rename it or put it in a package",
                     owner->kind, owner->name, c_type);
}

static bool claim_type(struct walk *walk, const struct owner *owner)
{
    struct sl_arena *arena = walk->model->arena;
    const struct sl_model_type *type = type_of(walk, owner->name);
    if (walk->file->generated)
        check_type_name(walk, owner, type->c_type);
    return claim(walk, owner, type->c_type) &&
           claim(walk, owner, sl_arena_print(arena, "%s__descriptor", type->c_lower)) &&
           claim(walk, owner, sl_arena_print(arena, "%s__INIT", type->c_upper));
}

static const char *qualify(struct walk *walk, const char *outer, const char *name)
{
    return *outer ? sl_arena_print(walk->model->arena, "%s.%s", outer, name) : name;
}

static void walk_enum(struct walk *walk, const sl_enum *declared, const char *outer,
                      struct sl_place place)
{
    const struct owner *owner =
        make_owner(walk, "enum", qualify(walk, outer, declared->name), place);
    const char *upper = type_of(walk, owner->name)->c_upper;
    bool ok = claim_type(walk, owner);
    for (size_t i = 0; ok && i < declared->n_value; i++)
        ok = claim(walk, owner,
                   sl_arena_print(walk->model->arena, "%s__%s", upper, declared->value[i]->name));
}

static void walk_oneof(struct walk *walk, const struct sl_model_type *type, const char *name,
                       struct sl_place place)
{
    struct sl_arena *arena = walk->model->arena;
    const struct owner *owner = make_owner(walk, "oneof", qualify(walk, type->name, name), place);
    const char *c_type =
        sl_arena_print(arena, "%s__%sCase", type->c_type, sl_names_type(arena, name));
    const char *unset =
        sl_arena_print(arena, "%s__%s__NOT_SET", type->c_upper, sl_names_upper(arena, name));
    if (claim(walk, owner, c_type))
        claim(walk, owner, unset);
}

static void walk_message(struct walk *walk, const sl_message *message, const char *outer,
                         struct sl_place place)
{
    const struct owner *owner =
        make_owner(walk, "message", qualify(walk, outer, message->name), place);
    const struct sl_model_type *type = type_of(walk, owner->name);
    const sl_file *file = place.file;
    if (claim_type(walk, owner))
        claim(walk, owner, sl_arena_print(walk->model->arena, "%s_Closure", type->c_type));
    for (size_t i = 0; i < message->n_oneof_decl; i++)
        walk_oneof(walk, type, message->oneof_decl[i]->name,
                   (struct sl_place){file, owner->place, SL_MESSAGE_ONEOF, i});
    for (size_t i = 0; i < message->n_enum_type; i++)
        walk_enum(walk, message->enum_type[i], owner->name,
                  (struct sl_place){file, owner->place, SL_MESSAGE_ENUM, i});
    for (size_t i = 0; i < message->n_nested_type; i++)
        walk_message(walk, message->nested_type[i], owner->name,
                     (struct sl_place){file, owner->place, SL_MESSAGE_NESTED, i});
}

static void walk_file(struct walk *walk)
{
    const sl_file *file = walk->file->proto;
    const char *package = file->package ? file->package : "";
    for (size_t i = 0; i < file->n_message_type; i++)
        walk_message(walk, file->message_type[i], package,
                     (struct sl_place){file, NULL, SL_FILE_MESSAGE, i});
    for (size_t i = 0; i < file->n_enum_type; i++)
        walk_enum(walk, file->enum_type[i], package,
                  (struct sl_place){file, NULL, SL_FILE_ENUM, i});
}

void sl_clash_find(const struct sl_model *model, struct sl_report *report)
{
    struct sl_table names = {.arena = model->arena};
    for (size_t i = 0; i < model->file_count; i++) {
        struct walk walk = {model, &model->files[i], report, &names};
        if (!walk.file->options.no_generate)
            walk_file(&walk);
    }
}
