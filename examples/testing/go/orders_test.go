// Package orders has tests of a Go client, with faults and the broker's clock in the hands of the test.
package orders

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const lostAnswer = `{"api": "Produce", "topic": "orders", "drop": "after", "times": 1}`

var servers, control string

// TestMain starts `ottla test-broker` for all tests of the package.
func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ottla := os.Getenv("OTTLA")
	if ottla == "" {
		ottla = "ottla"
	}
	// The broker stops when its standard input ends, which it does with this process.
	broker := exec.Command(ottla, "test-broker", "--stop-with-stdin")
	broker.Stderr = os.Stderr
	stdin, err := broker.StdinPipe()
	if err != nil {
		panic(err)
	}
	stdout, err := broker.StdoutPipe()
	if err != nil {
		panic(err)
	}
	if err := broker.Start(); err != nil {
		panic(err)
	}
	defer broker.Wait()
	defer stdin.Close()
	lines := bufio.NewReader(stdout)
	servers = after("listening on ", lines)
	control = after("control on ", lines)
	return m.Run()
}

func after(prefix string, lines *bufio.Reader) string {
	line, err := lines.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, prefix) {
		panic(fmt.Sprintf("ottla test-broker printed %q: %v", line, err))
	}
	return strings.TrimSpace(strings.TrimPrefix(line, prefix))
}

func post(t *testing.T, path, body string) {
	t.Helper()
	response, err := http.Post(control+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		t.Fatalf("%s: %s", path, text)
	}
}

func values(t *testing.T, topic string) []string {
	t.Helper()
	response, err := http.Get(control + "/records/" + topic)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var found struct {
		Records []struct{ Value string }
	}
	if err := json.NewDecoder(response.Body).Decode(&found); err != nil {
		t.Fatal(err)
	}
	values := []string{}
	for _, record := range found.Records {
		values = append(values, record.Value)
	}
	return values
}

func client(t *testing.T, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	options = append(options, kgo.SeedBrokers(servers), kgo.AllowAutoTopicCreation())
	client, err := kgo.NewClient(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func send(t *testing.T, client *kgo.Client, value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	record := &kgo.Record{Topic: "orders", Value: []byte(value)}
	if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func TestALostAnswerDuplicatesWithoutIdempotence(t *testing.T) {
	post(t, "/reset", "")
	post(t, "/faults", lostAnswer)
	send(t, client(t, kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck())), "tea")
	if found := values(t, "orders"); len(found) != 2 {
		t.Fatalf("expected the record twice, found %v", found)
	}
}

func TestALostAnswerDuplicatesNothingWithIdempotence(t *testing.T) {
	post(t, "/reset", "")
	post(t, "/faults", lostAnswer)
	send(t, client(t), "tea")
	if found := values(t, "orders"); len(found) != 1 {
		t.Fatalf("expected the record once, found %v", found)
	}
}

func TestATransactionThatTakesTooLongIsAborted(t *testing.T) {
	post(t, "/reset", "")
	client := client(t, kgo.TransactionalID("till"), kgo.TransactionTimeout(time.Minute))
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	send(t, client, "never paid")
	post(t, "/clock/advance", `{"duration": "2m"}`)
	if err := client.EndTransaction(context.Background(), kgo.TryCommit); err == nil {
		t.Fatal("the transaction was committed")
	}
	if found := values(t, "orders"); len(found) != 0 {
		t.Fatalf("expected nothing, found %v", found)
	}
}
