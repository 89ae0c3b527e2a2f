"""Values are handed on by what they mean: small cases of many trades, found with the options as shipped."""

import pytest

from tests.insight.dataflow.builders import NUMBER, TEXT, WHOLE, feeds, flow, many, record, tool
from toolyard.insight.embeddings.embedder import default_embedder


def said(description, schema=TEXT, **more):
    return {**schema, "description": description, **more}


MAIL = said("Email address of the recipient", format="email")
CUSTOMERS = many(record(id=TEXT, email=said("Email address of the customer", format="email")))
DATE = {**TEXT, "format": "date"}
ALBUMS = record(**{f"f{number}": TEXT for number in range(200)})

FED = [
    (
        "textbook: what was searched is fetched",
        tool("web_search", {"query": TEXT}, {"results": many(record(title=TEXT, url=said("URL of the page")))}),
        tool("fetch", {"url": said("URL to fetch")}),
        ("results[].url", "url"),
    ),
    (
        "textbook: customers are written to",
        tool("list_customers", gives={"customers": CUSTOMERS}),
        tool("send_email", {"to": MAIL, "subject": TEXT}),
        ("customers[].email", "to"),
    ),
    (
        "what stands behind two hundred other fields",
        tool("search", {"q": TEXT}, {"albums": ALBUMS, "tracks": many(record(id=TEXT, title=TEXT))}),
        tool("get_track", {"track_id": TEXT}),
        ("tracks[].id", "track_id"),
    ),
    (
        "calendar: guests by address",
        tool(
            "search_contacts", gives={"contacts": many(record(full_name=TEXT, email_address=TEXT))}, namespace="people"
        ),
        tool("create_event", {"title": TEXT, "attendees": said("Email addresses of the guests", many(TEXT))}),
        ("contacts[].email_address", "attendees"),
    ),
    (
        "calendar: where it takes place",
        tool("get_event", {"event_id": TEXT}, {"event": record(summary=TEXT, location=TEXT)}, namespace="calendar"),
        tool("geocode", {"address": said("Address or place to look up")}),
        ("event.location", "address"),
    ),
    (
        "maps: a point and the weather there",
        tool("geocode", {"address": TEXT}, {"results": many(record(lat=NUMBER, lng=NUMBER))}, namespace="maps"),
        tool("get_forecast", {"latitude": NUMBER, "longitude": NUMBER}),
        ("results[].lat", "latitude"),
    ),
    (
        "maps: an address is somewhere to go",
        tool("search_places", gives={"places": many(record(name=TEXT, formatted_address=TEXT))}),
        tool("get_directions", {"destination": said("Address of the place to go to")}),
        ("places[].formatted_address", "destination"),
    ),
    (
        "travel: airports by their code",
        tool("find_airports", {"city": TEXT}, {"airports": many(record(name=TEXT, iata_code=TEXT))}),
        tool("search_flights", {"origin": said("IATA code of the departure airport"), "date": TEXT}),
        ("airports[].iata_code", "origin"),
    ),
    (
        "travel: the offer that is booked",
        tool("search_flights", gives={"offers": many(record(id=TEXT, price=NUMBER))}),
        tool("book_flight", {"offer_id": TEXT}),
        ("offers[].id", "offer_id"),
    ),
    (
        "telephony: to whom, though nothing says that it is a number",
        tool("lookup_contact", gives={"contact": record(name=TEXT, mobile_number=TEXT)}, namespace="people"),
        tool("send_sms", {"to": TEXT, "text": TEXT}),
        ("contact.mobile_number", "to"),
    ),
    (
        "telephony: a standard names the sort of value",
        tool("get_profile", gives={"phone": TEXT}, namespace="people"),
        tool("dial", {"callee": said("Whom to call, in E.164 format")}),
        ("phone", "callee"),
    ),
    (
        "telephony: a recording is transcribed",
        tool("list_calls", gives={"calls": many(record(sid=TEXT, recording_url=TEXT))}, namespace="phone"),
        tool("transcribe", {"audio_url": said("URL of the recording to transcribe")}),
        ("calls[].recording_url", "audio_url"),
    ),
    (
        "CI: the log of a build",
        tool("list_builds", gives={"builds": many(record(id=WHOLE, status=TEXT))}),
        tool("get_build_log", {"build_id": WHOLE}),
        ("builds[].id", "build_id"),
    ),
    (
        "CI: who broke it is told",
        tool("get_commit", {"sha": TEXT}, {"author": record(name=TEXT, email=TEXT)}, namespace="git"),
        tool("notify", {"recipient": {**TEXT, "format": "email"}}),
        ("author.email", "recipient"),
    ),
    (
        "CI: someone is assigned",
        tool("list_collaborators", gives={"users": many(record(login=TEXT, id=WHOLE))}),
        tool("add_assignee", {"assignee": said("Login of the user to assign")}),
        ("users[].login", "assignee"),
    ),
    (
        "shop: whoever ordered asks",
        tool("get_order", gives={"order": record(id=TEXT, customer=record(email=TEXT))}, namespace="shop"),
        tool("create_ticket", {"requester": said("Email of the person who asks")}),
        ("order.customer.email", "requester"),
    ),
    (
        "shop: a picture by its link",
        tool("list_products", gives={"products": many(record(sku=TEXT, image_link=TEXT))}, namespace="shop"),
        tool("describe_picture", {"image": said("URL of the image")}),
        ("products[].image_link", "image"),
    ),
    (
        "shop: a currency",
        tool("get_cart", gives={"cart": record(total=NUMBER, currency=TEXT)}, namespace="shop"),
        tool("get_rate", {"base": said("Currency to convert from, ISO 4217"), "target": TEXT}),
        ("cart.currency", "base"),
    ),
    (
        "shop: a country by its code",
        tool("get_profile", gives={"country_code": TEXT}, namespace="shop"),
        tool("list_holidays", {"country": said("ISO 3166-1 alpha-2 code")}),
        ("country_code", "country"),
    ),
    (
        "finance: a symbol",
        tool("search_companies", gives={"matches": many(record(name=TEXT, ticker=TEXT))}, namespace="names"),
        tool("get_quote", {"symbol": TEXT}),
        ("matches[].ticker", "symbol"),
    ),
    (
        "network: an address of a machine",
        tool("list_servers", gives={"servers": many(record(id=TEXT, public_ip={**TEXT, "format": "ipv4"}))}),
        tool("scan_ports", {"target": said("IP address to scan")}),
        ("servers[].public_ip", "target"),
    ),
    (
        "lists of plain values",
        tool("get_post", gives={"tags": many(TEXT)}),
        tool("search_posts", {"tag": TEXT}),
        ("tags", "tag"),
    ),
    (
        "the name of a thing stands for it",
        tool("list_channels", gives={"channels": many(record(name=TEXT, topic=TEXT))}),
        tool("post_message", {"channel": said("Name of the channel"), "text": TEXT}),
        ("channels[].name", "channel"),
    ),
    (
        "an id in the middle of a tool's name is of what stands before it",
        tool("get-accounts", gives={"accounts": many(record(id=TEXT))}),
        tool("get-accounts-id-limits", {"id": TEXT}),
        ("accounts[].id", "id"),
    ),
    (
        "a login that is said to be an address",
        tool("list_members", gives={"members": many(record(login=said("The primary email address of this user.")))}),
        tool("send_email", {"to": TEXT, "subject": TEXT}, namespace="mail"),
        ("members[].login", "to"),
    ),
    (
        "dates: from when on",
        tool("get_release", gives={"start_date": said("When it began", format="date-time")}, namespace="git"),
        tool("list_issues", {"since": said("Only what was updated after this time, RFC 3339")}),
        ("start_date", "since"),
    ),
    (
        "dates: a stay as long as what it is for",
        tool("get_event", gives={"start": record(date=TEXT), "end": record(date=TEXT)}, namespace="calendar"),
        tool("search_stays", {"checkin": TEXT, "checkout": TEXT}),
        ("end.date", "checkout"),
    ),
    (
        "dates: due here, due there",
        tool("get_issue", gives={"due_on": TEXT}, namespace="git"),
        tool("create_task", {"due_date": TEXT}),
        ("due_on", "due_date"),
    ),
    (
        "people are looked for by their addresses",
        tool("get_commit", gives={"author": record(email=TEXT)}, namespace="git"),
        tool("search_users", {"query": TEXT}, namespace="desk"),
        ("author.email", "query"),
    ),
    (
        "dates: one leaves when it begins",
        tool("get_conference", gives={"start_date": TEXT}, namespace="calendar"),
        tool("book_flight", {"departure_date": TEXT}),
        ("start_date", "departure_date"),
    ),
    (
        "a copy elsewhere is called the same",
        tool("get_ticket", gives={"ticket": record(title=TEXT)}, namespace="desk"),
        tool("create_issue", {"title": TEXT}, namespace="git"),
        ("ticket.title", "title"),
    ),
    (
        "the name of a person is a person's name",
        tool("list_employees", gives={"employees": many(record(name=TEXT))}, namespace="staff"),
        tool("create_badge", {"full_name": TEXT}),
        ("employees[].name", "full_name"),
    ),
    (
        "a way ends at an address",
        tool("get_event", gives={"location": TEXT}, namespace="calendar"),
        tool("get_directions", {"origin": TEXT, "destination": TEXT}),
        ("location", "destination"),
    ),
    (
        "a number of one's own is sent from",
        tool("list_phone_numbers", gives={"numbers": many(record(phone_number=TEXT))}),
        tool("send_sms", {"from": TEXT, "text": TEXT}),
        ("numbers[].phone_number", "from"),
    ),
]

NOT_FED = [
    (
        "after a date is not after a page",
        tool("get_event", gives={"start_date": TEXT}, namespace="calendar"),
        tool("search_contacts", {"after": said("The paging cursor of the last resource that was read.")}),
    ),
    (
        "who made it is nothing to sort by",
        tool("get_ticket", gives={"created_by": TEXT}),
        tool("list_tickets", {"sort": record(by=TEXT)}),
    ),
    (
        "what is said of one thing is not said of another beside it",
        tool("get_team", gives={"description": TEXT}),
        tool("create_label", {"description": TEXT}),
    ),
    (
        "the title of a failure is no subject",
        tool("check_address", gives={"errors": many(record(title=TEXT))}, namespace="post"),
        tool("send_email", {"subject": TEXT}),
    ),
    (
        "the title of a person is a job",
        tool("get_employee", gives={"title": TEXT, "job_title": TEXT}, namespace="staff"),
        tool("send_email", {"subject": TEXT}),
    ),
    (
        "a title that is said to be of a job is no subject",
        tool("get_record", gives={"title": said("Job title")}, namespace="staff"),
        tool("create_issue", {"title": TEXT, "subject": TEXT}),
    ),
    (
        "what an action says of itself is no content",
        tool("delete_file", gives={"message": TEXT, "detail": TEXT, "status": TEXT, "error": TEXT}, namespace="disk"),
        tool("send_email", {"subject": TEXT, "body": TEXT}),
    ),
    (
        "nor what is to be done",
        tool("restart_server", gives={"message": said("Status message")}, namespace="ops"),
        tool("create_ticket", {"description": TEXT, "text": TEXT}),
    ),
    (
        "what is due is not when one leaves",
        tool("list_invoices", gives={"invoices": many(record(due_date=DATE))}, namespace="billing"),
        tool("book_flight", {"departure_date": DATE, "return_date": DATE, "date": DATE}),
    ),
    (
        "what is valid is not when one leaves",
        tool("get_certificate", gives={"not_before": DATE, "not_after": DATE, "valid_from": DATE}, namespace="tls"),
        tool("book_flight", {"departure_date": DATE, "return_date": DATE}),
    ),
    (
        "nothing is told of from a departure on",
        tool("book_flight", gives={"departure": DATE, "arrival": DATE}, namespace="air"),
        tool("list_invoices", {"since": DATE, "until": DATE}),
    ),
    (
        "when one thing was made is nothing to another",
        tool("get_document", gives={"created_at": DATE}),
        tool("list_faxes", {"created_after": DATE, "date_from": DATE}),
    ),
    (
        "when it began is not from when on it ended",
        tool("get_job", gives={"start_date": DATE}, namespace="jobs"),
        tool("list_runs", {"end_date_gte": DATE}),
    ),
    (
        "the title of one thing is not what another search is for",
        tool("create_ticket", gives={"title": TEXT}, namespace="desk"),
        tool("search_pages", {"query": TEXT}),
    ),
    (
        "an action of another thing",
        tool("list_image_actions", {"image_id": TEXT}, {"actions": many(record(id=TEXT))}),
        tool("get_volume_action", {"volume_id": TEXT, "action_id": TEXT}),
    ),
    (
        "a broadcast of another sort",
        tool("find_text_broadcasts", gives={"items": many(record(id=WHOLE))}),
        tool("stop_voice_broadcast", {"id": WHOLE}),
    ),
    (
        "a limit is no account",
        tool("list_limits", gives={"limits": many(record(id=TEXT))}),
        tool("get-accounts-id-limits", {"id": TEXT}),
    ),
    (
        "an address to write to is none to call back",
        tool("get_user", gives={"email": TEXT}),
        tool("set_webhook", {"callback_url": TEXT}),
    ),
    (
        "a product's name is no customer's",
        tool("list_products", gives={"products": many(record(name=TEXT))}),
        tool("create_customer", {"name": TEXT}),
    ),
    (
        "what was made is called as nothing else",
        tool("list_labels", gives={"labels": many(record(name=TEXT))}),
        tool("create_label", {"name": TEXT}),
    ),
    (
        "when it was built is not when it begins",
        tool("get_build", gives={"created_at": TEXT}),
        tool("create_event", {"start": TEXT}),
    ),
    (
        "an id of one service means nothing to another",
        tool("list_customers", gives={"customers": CUSTOMERS}, namespace="shop"),
        tool("get_customer", {"customer_id": TEXT}, namespace="bank"),
    ),
    (
        "a switch is nothing to hand on",
        tool("get_repo", gives={"archived": {"type": "boolean"}}),
        tool("search_repos", {"archived": {"type": "boolean"}}),
    ),
]


@pytest.fixture(params=["words", "model"])
def embedder(request):
    if request.param == "words":
        return None
    found = default_embedder()
    assert found is not None, "make setup installs the weights"
    return found


@pytest.mark.parametrize(("source", "target", "fed"), [row[1:] for row in FED], ids=[row[0] for row in FED])
def test_output_feeds_a_parameter_with_the_same_meaning(source, target, fed, embedder):
    assert fed in [feed[:2] for feed in feeds(flow(source, target, embedder=embedder))]


@pytest.mark.parametrize(("source", "target"), [row[1:] for row in NOT_FED], ids=[row[0] for row in NOT_FED])
def test_output_does_not_feed_a_parameter_with_another_meaning(source, target, embedder):
    assert feeds(flow(source, target, embedder=embedder)) == []


GENERAL = [("title", "subject"), ("due_date", "due_date"), ("start_date", "start_date"), ("content", "body")]


@pytest.mark.parametrize(("given", "taken"), GENERAL)
def test_general_values_score_lower_than_ids(given, taken, embedder):
    page, mail = tool("get_page", gives={"page_id": TEXT, given: TEXT}), tool("send", {taken: TEXT}, namespace="mail")
    found = flow(page, mail, tool("publish_page", {"page_id": TEXT}), embedder=embedder)
    assert found.edge(0, 1).score < found.edge(0, 2).score


@pytest.mark.parametrize("answer", [{"type": "null"}, {"description": "No content"}, {"type": "object"}, {}])
def test_tools_without_a_described_result_feed_nothing(answer):
    silent = tool("archive_contact", {"contact_id": TEXT}).replace(output_parameters=answer)
    assert flow(silent, tool("get_contact", {"contact": TEXT})).edge_count == 0
