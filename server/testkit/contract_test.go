package testkit

import (
	"net/http"
	"strings"
	"testing"
)

// What is not as the document says is found.
func TestContract(t *testing.T) {
	c, err := TheContract()
	if err != nil {
		t.Fatal(err)
	}
	const (
		purged    = `{"success":true,"deleted":3,"queue":"q","consumerGroup":null}`
		seek      = "/api/v1/consumer-groups/g/queues/q/seek"
		sought    = `{"success":true,"consumerGroup":"g","queueName":"q","seekToEnd":true,"targetTimestamp":null,"partitionsUpdated":8}`
		noRoute   = `{"error":"Not Found","code":"no_such_route"}`
		jsonMedia = "application/json"
	)
	tests := []struct {
		name, method, target, body string
		status                     int
		media, answer              string
		want                       string // "": fine
	}{
		{"as described", "DELETE", "/api/v1/dlq?queue=q", "", 200, jsonMedia, purged, ""},
		{"another member", "DELETE", "/api/v1/dlq?queue=q", "", 200, jsonMedia, strings.Replace(purged, "}", `,"why":1}`, 1), "why"},
		{"a member less", "DELETE", "/api/v1/dlq?queue=q", "", 200, jsonMedia, strings.Replace(purged, `"deleted":3,`, "", 1), "deleted"},
		{"another type", "DELETE", "/api/v1/dlq?queue=q", "", 200, jsonMedia, strings.Replace(purged, "3", `"3"`, 1), "/deleted"},
		{"below zero", "DELETE", "/api/v1/dlq?queue=q", "", 200, jsonMedia, strings.Replace(purged, "3", "-3", 1), "/deleted"},
		{"no time", "GET", "/api/v1/consumer-groups/lagging", "", 200, jsonMedia, `[{"consumer_group":"g","queue_name":"q","partition_name":"p","partition_id":"5dbb8c28-2838-8fdd-8000-000000000001","worker_id":null,"offset_lag":3,"time_lag_seconds":7416,"lag_hours":2.06,"oldest_unconsumed_at":"yesterday","last_consumed_at":null}]`, "oldest_unconsumed_at"},
		{"fixed before a parameter", "GET", "/api/v1/consumer-groups/lagging", "", 200, jsonMedia, `{}`, "want array"},
		{"a parameter", "GET", "/api/v1/consumer-groups/lag%2Fging", "", 200, jsonMedia, `{}`, ""},
		{"an object by names", "GET", "/api/v1/consumer-groups/g", "", 200, jsonMedia, `{"q":{}}`, "missing properties"},
		{"no JSON", "DELETE", "/api/v1/dlq?queue=q", "", 200, jsonMedia, `{`, "EOF"},
		{"another media type", "DELETE", "/api/v1/dlq?queue=q", "", 200, "text/plain", purged, "text/plain"},
		{"text", "GET", "/metrics/prometheus", "", 200, "text/plain; version=0.0.4; charset=utf-8", "a 1\n", ""},
		{"a status", "DELETE", "/api/v1/dlq?queue=q", "", 418, jsonMedia, purged, "418"},
		{"a shared answer", "DELETE", "/api/v1/dlq", "", 400, jsonMedia, `{"error":"queue is required"}`, ""},
		{"a code", "DELETE", "/api/v1/dlq", "", 503, jsonMedia, `{"error":"no","code":"tired"}`, "/code"},
		{"of what could not be read", "DELETE", "/api/v1/dlq", "", 431, jsonMedia, `{"error":"request header too large"}`, ""},
		{"nothing", "GET", "/api/v1/pop/queue/q", "", 204, "", "", ""},
		{"something", "GET", "/api/v1/pop/queue/q", "", 204, "", "{}", "has a body"},
		{"HEAD", "HEAD", "/api/v1/dlq", "", 200, jsonMedia, "", ""},
		{"HEAD that is not described", "HEAD", "/api/v1/pop", "", 405, jsonMedia, "", ""},
		{"a request", "POST", seek, `{"toEnd":true,"more":1}`, 200, jsonMedia, sought, ""},
		{"another request", "POST", seek, `{"toEnd":"yes"}`, 200, jsonMedia, sought, "/toEnd"},
		{"a request that was refused", "POST", seek, `{"toEnd":"yes"}`, 400, jsonMedia, `{"error":"bad body: toEnd is not true or false"}`, ""},
		{"what may be anything", "POST", "/api/v1/lease/x/extend", `nope`, 200, jsonMedia, `{"leaseId":"x","success":false,"renewed":0,"newExpiresAt":null,"expiresAt":null,"lease_expires_at":null}`, ""},
		{"no route", "GET", "/api/v1/nope", "", 404, jsonMedia, noRoute, ""},
		{"a page instead", "GET", "/api/v1/nope", "", 404, "text/html", noRoute, "text/html"},
		{"a route that is not described", "GET", "/api/v1/nope", "", 200, jsonMedia, "{}", "not described"},
		{"a page", "GET", "/", "", 200, "text/html; charset=utf-8", "<p>", ""},
		{"no method", "PUT", "/health", "", 405, jsonMedia, `{"error":"Method Not Allowed","code":"method_not_allowed"}`, ""},
		{"no access", "PUT", "/health", "", 403, jsonMedia, `{"reason":"no"}`, "error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := Answer{Status: tt.status, Header: http.Header{}, Body: []byte(tt.answer)}
			if tt.media != "" {
				a.Header.Set("Content-Type", tt.media)
			}
			err := c.Check(tt.method, tt.target, tt.body, a)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
