/* SPDX-License-Identifier: Apache-2.0 */
/* fields.c - the documented names of fields that C cannot hold as they are; each keeps its number. */
#include "checks/check.h"

static void is_field(const char *name, unsigned number)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(&own__fields__m__descriptor, number);
    if (!field || strcmp(field->name, name) != 0) {
        fprintf(stderr, "field %u is %s, not %s\n", number, field ? field->name : "none", name);
        exit(1);
    }
}

int main(void)
{
    Own__Fields__M m = OWN__FIELDS__M__INIT;
    m.base_ = m.foo = m.foo_ = m.n_r_ = m.kind_case_ = m.concept_ = m.st_mtime_ = 1;
    m.auto_ = m.auto__ = m.noexcept__ = 1;
    m.kind_case = OWN__FIELDS__M__KIND_FOO_BAR_;
    m.foo_bar_ = 1;
    CHECK(m.n_r == 0 && m.n_restrict_ == 0 && m.restrict_ == NULL && m.errno_ == NULL);
    CHECK(m.ab == 1 && m.a_b_ == 2);
    is_field("base_", 1);
    is_field("foo_", 3);
    is_field("n_r_", 5);
    is_field("restrict_", 6);
    is_field("foo_bar_", 9);
    is_field("kind_case_", 10);
    is_field("a_b_", 12);
    is_field("auto", 15);
    is_field("auto__", 16);
    is_field("noexcept__", 17);
    Own__Fields__Renamed renamed = OWN__FIELDS__RENAMED__INIT;
    renamed.base = renamed.header_ = 1;
    CHECK(renamed.header.descriptor == &own__fields__renamed__descriptor);
    return 0;
}
