// Package openapi describes the HTTP API in OpenAPI 3.1, for programs that make clients,
// tests or pages of it; GET /openapi.json answers what Document makes. For people there is
// docs/http-api.md.
//
// # Where what stands
//
// An area is a file: its operations, one for each line of the table in server/routes.go, and
// the schemas of what they take and answer. areas.go lists the areas. What follows from the
// line of the table is not written down again: path parameters, the header that names a tenant,
// the level of access, the answers that every route gives, and HEAD where it is answered; see
// build.go. common.go has what areas share.
//
// # Types
//
// A field is a name, a type and what it means. A name that ends with a question mark may be
// missing, another is always there. Types are words (types.go):
//
//	string  boolean  number  any     as in JSON; any is every value, null included
//	integer  count                   of 64 bits; a count is not negative
//	uuid  time                       strings in those formats
//	Message                          the schema of that name
//	'queued'|'duplicate'             one of these texts
//	Message[]  map[Message]          an array, an object with a member for each of them
//	uuid|null                        either; with [] at the end, an array of both
//	count 1..1000 = 200              bounds, both included, and what absence means
//
// What absence means is said so of parameters alone, and in the text of members of bodies:
// some generators take a member with a default for one that has to be there.
//
// # What holds it to the source
//
// Document fails if a route is not described, or what is described is no route. The tests of
// docs compare the parameters of each route with those that its handler reads. And each
// answer that the acceptance tests get is compared with the schema of its route and status
// (testkit.Contract): a status, a member or a value that is not described fails the test.
package openapi
